"""The environments that peers written in Python run in, made on first use."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from dev.connector import REPO
from dev.machine import ServiceError, announce

VERSIONS = """
import importlib.metadata, json, sys
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in the repository's folder, and the file that says what is in it."""

    folder: str
    requirements: Path

    def python(self) -> str:
        """The Python of the environment, which is made when it is missing or its requirements have changed.

        Raises:
            ServiceError: it could not be made; the message shows what pip said.
        """
        wanted = self.requirements.read_text()
        place = REPO / self.folder
        python = str(place / "bin" / "python")
        stamp = place / ".requirements"  # written last: an interrupted installation is begun anew
        if not stamp.exists() or stamp.read_text() != wanted:
            announce(f"Making {self.folder} from {self.requirements.name}: a minute, once")
            if place.exists():
                shutil.rmtree(place)
            self._run([sys.executable, "-m", "venv", str(place)])
            self._run([python, "-m", "pip", "install", "--quiet", "-r", str(self.requirements)])
            stamp.write_text(wanted)
        return python

    def _run(self, command: list[str]) -> None:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise ServiceError(f"making {self.folder} failed. {command[0]} said:\n{told.stdout}{told.stderr}")


DEPENDENCY = Environment(".venv-bench", Path(__file__).with_name("requirements.txt"))
STREAMING = Environment(".venv-bench-spark", Path(__file__).with_name("requirements-spark.txt"))


def versions(python: str, names: tuple[str, ...]) -> str:
    """Names and versions of installed packages, as that Python sees them."""
    told = subprocess.run([python, "-c", VERSIONS, *names], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise ServiceError(f"asking {python} for the versions of {', '.join(names)} failed:\n{told.stderr}")
    return ", ".join(f"{name} {version}" for name, version in json.loads(told.stdout).items())
