"""How much memory a process holds."""

import os
from pathlib import Path


def resident_bytes(pid: int) -> int | None:
    """What the process holds in memory; ``None`` where it is gone, or the system has no ``/proc``."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
