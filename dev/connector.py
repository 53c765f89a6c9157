"""The real connector as a child process, set up by nothing but the variables it is given."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from app.variables import Variables
from dev.machine import ServiceError
from dev.server import tail

REPO = Path(__file__).resolve().parent.parent


class Connector:
    """``python main.py``. Use as a context manager: after the block its processes are gone, Java's too.

    Args:
        settings: the variables to set; all others of the connector count as unset.
        log: file that gets what it prints.
    """

    stop_timeout = 60.0  # seconds; the last batch has to be written and uploaded

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(REPO / "main.py")],
                cwd=REPO,
                env=_environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone; and one signal can reach all that it started
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_running(self) -> None:
        """Raise with the end of the log if the connector has ended.

        Raises:
            ServiceError: it is not running any more.
        """
        code = self._process.poll()
        if code is not None:
            raise self.failure(f"ended by itself with exit code {code}")

    def stop(self) -> None:
        """Stop it as a platform does, by SIGTERM, and wait until everything is written.

        Raises:
            ServiceError: it took too long, or its exit code is not 0.
        """
        self._process.terminate()
        try:
            code = self._process.wait(self.stop_timeout)
        except subprocess.TimeoutExpired as late:
            raise self.failure(f"did not stop within {self.stop_timeout:.0f} s of SIGTERM") from late
        if code != 0:
            raise self.failure(f"stopped with exit code {code}")

    def failure(self, what: str) -> ServiceError:
        """An error that tells what the connector did, and shows and names its log."""
        return ServiceError(f"the connector {what}. The end of {self._log}:\n{tail(self._log)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):  # stopped in order, and nothing of it is left
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Our environment with the connector's variables as given.

    The others are set to nothing, which counts as unset: a bucket or a catalog that the person has in the
    environment or in ``.env`` must not get these rows.
    """
    blank = {str(field.validation_alias): "" for field in Variables.model_fields.values()}
    return {**os.environ, **blank, **settings}
