"""``make sample``: the connector and its test in the shape of Quix's public repository of samples."""

import shutil
import subprocess
import sys
from pathlib import Path

from dev.connector import REPO

NAME = "destinations/quix-ts-datalake-sink"
WANTED = (
    *("main.py", "app", "library.json", "Dockerfile", ".dockerignore", "icon.png", "LICENSE"),
    *("README.md", "docs", "dotenv.example", "bench/results/latest.svg"),
)


def main() -> int:
    """Write the sample into ``build/sample``, in place of an earlier one."""
    folder = REPO / "build" / "sample"
    shutil.rmtree(folder, ignore_errors=True)
    print(f"written: {export(folder)}")
    return 0


def export(folder: Path) -> Path:
    """Copy what Git has of the connector and of its test into this folder, and return the connector's folder."""
    sample, test = folder / "python" / NAME, folder / "tests" / NAME
    listed = ["git", "-C", str(REPO), "ls-files", "--", *WANTED, "requirements*.txt", "requirements*.lock"]
    for name in subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines():
        (sample / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, sample / name)
    shutil.copytree(REPO / "deploy" / "sample", test)
    return sample


if __name__ == "__main__":
    sys.exit(main())
