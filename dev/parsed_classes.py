"""The archive of parsed classes that the image starts Java with, for connectors that run without the image."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from app.spark.find_java import find_java, release_of
from app.spark.java_process import EXTRA_OPTIONS
from dev.class_archive import archive_option
from dev.machine import ServiceError, make_once

_REPO = Path(__file__).resolve().parent.parent


def make_archive(archive: Path) -> None:
    """Write it in a process of its own, for Java is started by the first session of a process alone.

    Raises:
        ServiceError: it did not work, with what was printed.
    """
    # An archive may be in use already, and Java cannot write one then.
    environment = {name: value for name, value in os.environ.items() if name != EXTRA_OPTIONS}
    told = subprocess.run(
        [sys.executable, "-m", "dev.class_archive", str(archive)],
        cwd=_REPO,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        raise ServiceError(f"archiving Spark's classes failed:\n{told.stdout}")


def kept_archive() -> list[str]:
    """Java's option for the archive that this checkout keeps; none yet at the first call.

    That one makes it in the background, for the next start.
    """
    java = find_java()
    archive = _REPO / ".cache" / f"spark-{pyspark.__version__}-java-{release_of(java)}.archive"
    if archive.exists():
        return [archive_option(java, archive)]
    subprocess.Popen(
        ["nice", "-n", "19", sys.executable, "-m", "dev.parsed_classes", str(archive)],
        cwd=_REPO,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends the caller alone
    )
    return []


def archive_variables(archive: Path) -> dict[str, str]:
    """The variables that make a connector start Java with this archive."""
    return {EXTRA_OPTIONS: archive_option(find_java(), archive)}


if __name__ == "__main__":
    make_once(Path(sys.argv[1]), make_archive, "Archiving Spark's classes")
