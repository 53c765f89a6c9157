"""``make test-night``: all that searches for the rare, one part after the other. It goes on after a failure.

    make test-night                             all parts, for hours, with a new seed
    make test-night PARTS="faults chaos"        some of them
    make test-night PARTS=state SEED=4711       what a former run has printed, once more

``CHAOS_KILLS`` and ``SOAK_SECONDS`` make those two longer or shorter.
"""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
STATE_MACHINES = "tests/faults/test_state_machine.py"
CHAOS = "tests/faults/test_crash_loop.py"
SOAK = "tests/faults/test_soak.py"
SEARCH = ("--hypothesis-profile=night", "--hypothesis-seed={seed}")


@dataclass(frozen=True)
class Part:
    """What one part runs.

    Args:
        what: for the reader.
        command: of Python's ``-m``; ``{seed}`` in it is the seed of this night.
        folders: beginnings of ids of tests: which ``night`` tests the part has.
        defaults: environment variables, where they are not set.
    """

    what: str
    command: Sequence[str]
    folders: Sequence[str] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


def _tests(what: str, *folders: str, without: Sequence[str] = ()) -> Part:
    """The ``night`` tests of these folders, side by side."""
    ignored = [f"--ignore={each}" for each in without]
    command = ["pytest", "-n", "auto", "-m", "night", "-o", "faulthandler_timeout=900", *SEARCH, *ignored, *folders]
    return Part(what, command, folders)


PARTS: Mapping[str, Part] = {
    "properties": Part(
        "many new examples of each property",
        ["pytest", "-n", "auto", "-m", "hypothesis", *SEARCH, f"--ignore={STATE_MACHINES}", "tests"],
    ),
    "state": Part("many new orders of requests", ["pytest", "-n", "2", *SEARCH, STATE_MACHINES], [STATE_MACHINES]),
    "models": _tests("the models within wider bounds, and many cases", "tests/model", "tests/properties"),
    "faults": _tests("each fault at each step", "tests/faults", without=(CHAOS, SOAK, STATE_MACHINES)),
    "stores": _tests("all stores", "tests/integration/storage", "tests/e2e/test_every_store.py"),
    "engines": _tests("engines, readers, commands", "tests/integration", without=("tests/integration/storage",)),
    "processes": _tests(
        "processes", "tests/e2e", "tests/unit", "tests/upgrade", without=("tests/e2e/test_every_store.py",)
    ),
    "parity": _tests("beside the sink that quixstreams ships", "tests/parity"),
    "container": Part("the image", ["pytest", "tests/container"], ["tests/container"]),
    "alone": Part("what nothing may run beside", ["pytest", "-m", "alone", f"--ignore={SOAK}", "tests"]),
    "mutants": Part("planted faults", ["tests.mutants"]),
    "chaos": Part("members that die under load", ["pytest", "-s", CHAOS], [CHAOS], {"CHAOS_KILLS": "50"}),
    "soak": Part("a long load", ["pytest", "-s", SOAK], [SOAK], {"SOAK_SECONDS": "1800"}),
}


def without_part(nodeids: Iterable[str]) -> list[str]:
    """Tests of the night that no part would run."""
    folders = tuple(folder for part in PARTS.values() for folder in part.folders)
    return [nodeid for nodeid in nodeids if not nodeid.startswith(folders)]


def main(names: Sequence[str], seed: int) -> int:
    """Run these parts; 1 if any failed."""
    if unknown := set(names) - set(PARTS):
        print(f"PARTS has {', '.join(sorted(unknown))}. There are: {' '.join(PARTS)}", file=sys.stderr)
        return 2
    outcomes = []
    for name in names or PARTS:
        print(f"\n===== {name}: {PARTS[name].what}. Again: make test-night PARTS={name} SEED={seed}", flush=True)
        began = time.monotonic()
        code = _run(PARTS[name], seed)
        outcomes.append(code)
        told = "passed" if code == 0 else f"FAILED with code {code}"
        print(f"===== {name}: {told} after {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    failed = sum(code != 0 for code in outcomes)
    print(f"\nSeed {seed}. Parts: {len(outcomes) - failed} passed, {failed} failed")
    return int(failed > 0)


def _run(part: Part, seed: int) -> int:
    command = [sys.executable, "-m", *(word.format(seed=seed) for word in part.command)]
    return subprocess.run(
        command, cwd=REPO, env={**part.defaults, "CHAOS_SEED": str(seed), **os.environ}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], int(os.environ.get("SEED") or secrets.randbelow(2**32))))
