"""The real connector as a child process, set up by nothing but the variables it is given."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from app.config.settings import VARIABLES
from dev.child import Child

REPO = Path(__file__).resolve().parent.parent


class Connector(Child):
    """``python main.py``. Use as a context manager: after the block its processes are gone, Java's too.

    Args:
        settings: the variables to set; all others of the connector count as unset.
        log: file that gets what it prints.
        folder: where ``main.py`` and ``app`` are, if it is customised.
    """

    stop_timeout = 60.0  # seconds; the last batch has to be written and uploaded

    def __init__(self, settings: Mapping[str, str], log: Path, folder: Path = REPO) -> None:
        command = [sys.executable, str(folder / "main.py")]
        super().__init__("the connector", command, folder=folder, environment=environment(settings), log=log)

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


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Our environment with the connector's variables as given.

    The others are set to nothing, which counts as unset: a bucket or a catalog that the person has in the
    environment or in ``.env`` must not get these rows.
    """
    blank = dict.fromkeys(VARIABLES, "")
    return {**os.environ, **blank, **settings}


def customised(folder: Path, transform: str) -> Path:
    """Copy the connector into a new folder, with this text for its ``app/transform.py``; returns the folder."""
    shutil.copytree(REPO / "app", folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPO / "main.py", folder)
    (folder / "app" / "transform.py").write_text(transform)
    return folder
