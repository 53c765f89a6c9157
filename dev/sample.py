"""``make sample``: the connector and its test in the shape of Quix's public repository of samples."""

import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from dev.connector import REPO

NAME = "destinations/quix-ts-datalake-sink"
# Beside what goes into the image: the form, and what the pages tell to copy, to run or to read.
BESIDE = (
    *("Dockerfile", ".dockerignore", "library.json", "icon.png", "dotenv.example", "docker-compose.yml"),
    *("deploy", ":!deploy/sample", ":!docs/tutorial.md", "bench/results/*.md", "bench/results/*.svg"),
)
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s#:]+)[^)\s:]*\)")


def main() -> int:
    """Write the sample into ``build/sample``, in place of an earlier one."""
    folder = REPO / "build" / "sample"
    shutil.rmtree(folder, ignore_errors=True)
    print(f"written: {export(folder)}")
    return 0


def export(folder: Path) -> Path:
    """Copy what Git has of the connector and of its test into this folder, and return the connector's folder.

    A link to what is not copied becomes its text.
    """
    sample, test = folder / "python" / NAME, folder / "tests" / NAME
    listed = ["git", "-C", str(REPO), "ls-files", "--", *in_image(), *BESIDE]
    for name in subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines():
        (sample / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, sample / name)
    shutil.copytree(REPO / "deploy" / "sample", test)
    (test / "README.md").replace(sample / "README.md")
    for page in sample.rglob("*.md"):
        page.write_text(_LINK.sub(partial(_alone, page.parent), page.read_text()))
    return sample


def _alone(folder: Path, link: re.Match[str]) -> str:
    return link[0] if (folder / link[2]).exists() else link[1]


def in_image() -> list[str]:
    """Return what the Dockerfile copies, which is what .dockerignore does not ignore."""
    return [line[1:] for line in (REPO / ".dockerignore").read_text().splitlines() if line.startswith("!")]


if __name__ == "__main__":
    sys.exit(main())
