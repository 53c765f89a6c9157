"""The dependency's own sink as a child process, to be used as ``dev.connector.Connector`` is."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.environment import peer_python
from dev.machine import ServiceError
from dev.server import tail

FOLDER = Path(__file__).parent


class Peer:
    """``bench/peer/main.py`` in its own environment; killed at the end of the block, for it has committed by then.

    Args:
        settings: variables to set.
        log: file that gets what it prints.
    """

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        self._log = log
        standin = {"PYTHONPATH": str(FOLDER / "standin")}  # for its private package, and for this process alone
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [peer_python(), str(FOLDER / "peer" / "main.py")],
                cwd=log.parent,
                env={**os.environ, **settings, **standin},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
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
        return ServiceError(f"the dependency's sink {what}. The end of {self._log}:\n{tail(self._log)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
