"""The ``audit`` command as a process of its own."""

import json
import os
import subprocess
import sys
from typing import Any

from app.config.variables import Variables
from tests.e2e.connector import REPO


class Auditor:
    """Runs ``python main.py audit`` with these settings."""

    def __init__(self, settings: dict[str, str]) -> None:
        blank = {str(field.validation_alias): "" for field in Variables.model_fields.values()}
        self._environment = {**os.environ, **blank, **settings}

    def json(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code and what is told of each topic-partition."""
        ended = subprocess.run(
            [sys.executable, str(REPO / "main.py"), "audit", "--json"],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.stderr == "", ended.stderr
        return ended.returncode, json.loads(ended.stdout)["partitions"]
