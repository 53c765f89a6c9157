"""What this machine has, and what is made once for it and kept in the user's cache folder."""

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


class ServiceError(RuntimeError):
    """A development service that cannot be had or does not do what was asked; the message says what to do."""


def announce(line: str) -> None:
    """Tell the person who waits what is going on, at once and apart from the command's own output."""
    print(line, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """The folder that keeps downloads and builds from run to run; outside the repo, so that clones share it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "quix-ts-datalake-sink"


def make_once(target: Path, make: Callable[[Path], None], announcement: str) -> Path:
    """Return ``target``, which ``make`` produces the first time.

    It is made beside its place and renamed when it is complete: an interrupted run leaves nothing that looks whole.
    A lock lets a second process wait for the first one instead of doing the same work.

    Args:
        target: the file or folder to have.
        make: creates the file or folder at the path it is given.
        announcement: one line for the person who waits; shown only when there is work to do.

    Raises:
        ServiceError: the cache folder cannot be written, or whatever ``make`` raises.
    """
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = target.with_name(f"{target.name}.lock").open("w")
    except OSError as error:
        raise ServiceError(
            f"cannot write to the cache folder {target.parent}: {error.strerror}. "
            "Set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            announce(announcement)
            _make_in_place(target, make)
    return target


def _make_in_place(target: Path, make: Callable[[Path], None]) -> None:
    work = f".{target.name}."
    for left_over in target.parent.glob(f"{work}*"):  # of a run that was killed; the lock says nobody uses it
        shutil.rmtree(left_over)
    with tempfile.TemporaryDirectory(prefix=work, dir=target.parent) as folder:
        made = Path(folder) / target.name
        make(made)
        made.rename(target)
