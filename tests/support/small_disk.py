"""A disk that is really full: a folder in memory of some megabytes, for which the machine must let us mount one."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.unavailable import cannot_run


@contextmanager
def small_disk(folder: Path, megabytes: int, *options: str) -> Iterator[Path]:
    """Let a new folder be a disk of this size, with these options of ``mount``, as long as the block lasts."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={megabytes}m", *options]), "tmpfs", str(folder)]
    try:
        refused = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        cannot_run("there is no mount")
    if refused.returncode:
        cannot_run(f"no disk can be mounted here: {refused.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, leave_bytes: int = 0) -> None:
    """Take the room that is left, but for so much."""
    page = bytes(4096)
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while shutil.disk_usage(disk).free > leave_bytes:
            file.write(page)
