"""An equal share of processor time for each replica: a control group of its own, of version 1."""

import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dev.machine import ServiceError

_TREE: Final = Path("/sys/fs/cgroup/cpu")
_PERIOD_MICROSECONDS: Final = 100_000
_NO_LIMIT: Final = -1
_GONE_WITHIN = 20.0  # seconds; a killed process leaves its group a moment later


class Share:
    """Use as a context manager around the processes that are put into it: they must be gone after the block.

    Args:
        name: of the group, which must be new.

    Raises:
        ServiceError: no group can be made here.
    """

    def __init__(self, name: str) -> None:
        self._folder = _TREE / name
        try:
            self._folder.mkdir()
            self.limit(None)
        except OSError as error:
            raise ServiceError(
                f"no control group can be made below {_TREE} ({error.strerror}): replicas with equal shares of "
                "processor time need Linux with control groups of version 1, and root"
            ) from error

    def add(self, pid: int) -> None:
        """Put a process into it; what it starts from now on is in it too."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def limit(self, cores: float | None) -> None:
        """Let all its processes together have so many cores, or as many as there are."""
        quota = _NO_LIMIT if cores is None else round(cores * _PERIOD_MICROSECONDS)
        (self._folder / "cpu.cfs_quota_us").write_text(str(quota))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deadline = time.monotonic() + _GONE_WITHIN
        while True:
            try:
                self._folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return
