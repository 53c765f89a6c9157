"""Finds the Java that Spark and Kafka run on. ``python -m dev.java`` tells whether it is there.

Standard library alone: ``make`` asks before it spends minutes on an environment that could not be used.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from dev.machine import ServiceError

OLDEST = 17
INSTALL = (
    "Debian/Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install --cask temurin@17; "
    "RHEL/Fedora: dnf install java-17-openjdk-headless"
)


def find_java() -> str:
    """Return the path of a Java 17 or newer: the one in ``JAVA_HOME`` if that is set, as Spark does, else on ``PATH``.

    Raises:
        ServiceError: there is none, or it is older; the message says how to install one.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    version = _major_version(path) if path else None
    if path and version is not None and version >= OLDEST:
        return path
    where = f"JAVA_HOME={home}" if home else "PATH"
    found = f"{path} is Java {version}" if version else f"none was found in {where}"
    raise ServiceError(f"Java {OLDEST} or newer is needed, {found}. Install it: {INSTALL}")


def _major_version(java: str) -> int | None:
    """The feature release (17 for ``17.0.15``, 8 for ``1.8.0_402``); None for a launcher without a Java behind it."""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(match[1]) if told.returncode == 0 and match else None


def main() -> int:
    try:
        find_java()
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
