"""A program as a child process of ours: all variables given, one log file, nothing of it left after the block."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from dev.machine import ServiceError
from dev.server import tail


class Child:
    """Use as a context manager: after the block it is gone, and all that it started.

    Args:
        name: what messages call it.
        command: what to run.
        folder: to run it in.
        environment: all of its variables.
        log: file that gets what it prints.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._name = name
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone; and one signal can reach all that it started
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_running(self) -> None:
        """Raise with the end of the log if it has ended.

        Raises:
            ServiceError: it is not running any more.
        """
        code = self._process.poll()
        if code is not None:
            raise self.failure(f"ended by itself with exit code {code}")

    def failure(self, what: str) -> ServiceError:
        """An error that tells what it did, and shows and names its log."""
        return ServiceError(f"{self._name} {what}. The end of {self._log}:\n{tail(self._log)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):  # stopped in order, and nothing of it is left
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
