"""The private folder for staged and written files, and what a killed process left of its own."""

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "quix-datalake-"


def make_scratch() -> Path:
    """A new folder (mode 0700) in the temporary directory; folders of processes that are gone are removed first."""
    parent = Path(tempfile.gettempdir())
    for leftover in parent.glob(f"{_PREFIX}*"):
        if _is_left_over(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def _is_left_over(folder: Path) -> bool:
    pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
    if not pid.isdigit() or folder.stat().st_uid != os.getuid():
        return False
    # In a container every life of the connector has the same pid.
    return int(pid) == os.getpid() or not Path(f"/proc/{pid}").exists()
