"""The private folder for staged and written files; removes the folders of killed processes."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "quix-datalake-"
_MOUNTS = Path("/proc/self/mounts")


def make_scratch() -> Path:
    """Creates a folder (mode 0700) in the temporary directory, and removes the folders of dead processes.

    A folder is locked for the life of its process. Process ids do not identify live processes, because containers that
    share a temporary directory have the same ids.
    """
    parent = Path(tempfile.gettempdir())
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            descriptor = _lock(folder)
        except OSError:
            continue  # in use, deleted, or another user's
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            _lock(folder)  # released by the system at the end of the process
        except (BlockingIOError, FileNotFoundError):
            continue  # another process that starts has removed it
        except OSError:
            return folder  # a file system without locks: folders of dead processes stay
        if folder.exists():
            return folder


@contextmanager
def scratch_folder() -> Iterator[Path]:
    folder = make_scratch()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_in_memory(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether the folder is on a file system in memory. Its files then use the container's memory.

    Returns ``False`` if the system has no list of ``mounts``.
    """
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return False
    path = folder.resolve()
    above = [(len(point), kind) for _, point, kind, *_ in lines if path.is_relative_to(point)]
    # If two mounts have the same path, the later one is used.
    _, kind = max(reversed(above), key=lambda mount: mount[0], default=(0, ""))
    return kind in {"tmpfs", "ramfs"}


def _lock(folder: Path) -> int:
    """Locks the folder, and returns the descriptor that holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
