"""Plants each fault in a copy of the sources, and fails unless a test finds it.

python -m tests.mutants [part of a name]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutants import MUTANTS, REPO, Mutant

COPIED = ("app", "dev", "tests", "main.py", "pyproject.toml")
ONE_FAILED = 1  # pytest's exit code
_ONLY_SOURCES = shutil.ignore_patterns("__pycache__")


@dataclass(frozen=True)
class Result:
    """What became of a mutant; ``found_by`` is empty where it survives."""

    name: str
    found_by: str
    seconds: float


def main(wanted: str = "") -> int:
    chosen = [mutant for mutant in MUTANTS if wanted in mutant.name]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        print(f"{'without a fault':<62}", end=" ", flush=True)  # what fails anyway would find every fault
        healthy = run_tests(
            copy(Path(folder) / "healthy"), sorted({test for mutant in chosen for test in mutant.tests})
        )
        if healthy.returncode:
            print(f"fails\n{healthy.stdout}")
            return 1
        print("passes")
        results = pool.map(lambda numbered: plant(numbered[1], Path(folder) / str(numbered[0])), enumerate(chosen))
        return told(results)


def told(results: Iterable[Result]) -> int:
    """Print a line for each; 1 if any survives."""
    survivors = 0
    for result in results:
        print(f"{result.name:<62} {result.seconds:4.0f} s  {result.found_by or 'SURVIVES'}", flush=True)
        survivors += not result.found_by
    if survivors:
        print(f"{survivors} faults were found by no test")
    return int(survivors > 0)


def plant(mutant: Mutant, tree: Path) -> Result:
    copy(tree)
    (tree / mutant.file).write_text(mutant.planted(tree))
    began = time.monotonic()
    done = run_tests(tree, mutant.tests)
    seconds = time.monotonic() - began
    if done.returncode not in (0, ONE_FAILED):
        raise SystemExit(f"{mutant.name}: pytest ended with code {done.returncode}\n{done.stdout}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    shutil.rmtree(tree)
    return Result(mutant.name, failed[1] if failed else "", seconds)


def copy(tree: Path) -> Path:
    tree.mkdir()
    for name in COPIED:
        if (REPO / name).is_dir():
            shutil.copytree(REPO / name, tree / name, ignore=_ONLY_SOURCES)
        else:
            shutil.copy(REPO / name, tree)
    return tree


def run_tests(tree: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", "-m", "unit", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
