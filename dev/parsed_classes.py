"""The archive of parsed classes that the image starts Java with, for connectors that run without the image."""

import os
import subprocess
import sys
from pathlib import Path

from app.spark.class_archive import archive_option
from app.spark.java import find_java
from app.spark.launch import EXTRA_OPTIONS
from dev.machine import ServiceError

_REPO = Path(__file__).resolve().parent.parent


def make_archive(archive: Path) -> None:
    """Write it in a process of its own, for Java is started by the first session of a process alone.

    Raises:
        ServiceError: it did not work, with what was printed.
    """
    # An archive may be in use already, and Java cannot write one then.
    environment = {name: value for name, value in os.environ.items() if name != EXTRA_OPTIONS}
    told = subprocess.run(
        [sys.executable, "-m", "app.spark.class_archive", str(archive)],
        cwd=_REPO,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        raise ServiceError(f"archiving Spark's classes failed:\n{told.stdout}")


def archive_variables(archive: Path) -> dict[str, str]:
    """The variables that make a connector start Java with this archive."""
    return {EXTRA_OPTIONS: archive_option(find_java(), archive)}
