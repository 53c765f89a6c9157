"""The environment that the dependency's own sink runs in, made on first use."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from dev.connector import REPO
from dev.machine import ServiceError, announce

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VENV = REPO / ".venv-bench"
PYTHON = VENV / "bin" / "python"
VERSIONS = """
import importlib.metadata, json, sys
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))
"""


def peer_python() -> str:
    """The Python of that environment, which is made when it is missing or its requirements have changed.

    Raises:
        ServiceError: it could not be made; the message shows what pip said.
    """
    wanted = REQUIREMENTS.read_text()
    stamp = VENV / ".requirements"  # written last: an interrupted installation is begun anew
    if not stamp.exists() or stamp.read_text() != wanted:
        announce(f"Making {VENV.name} for the dependency's own sink: a minute, once")
        if VENV.exists():
            shutil.rmtree(VENV)
        _run([sys.executable, "-m", "venv", str(VENV)])
        _run([str(PYTHON), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)])
        stamp.write_text(wanted)
    return str(PYTHON)


def versions(python: str, names: tuple[str, ...]) -> dict[str, str]:
    """The versions of installed packages, as that Python sees them."""
    found: dict[str, str] = json.loads(_run([python, "-c", VERSIONS, *names]))
    return found


def _run(command: list[str]) -> str:
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise ServiceError(f"making {VENV.name} failed. {command[0]} said:\n{told.stdout}{told.stderr}")
    return told.stdout
