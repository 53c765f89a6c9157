"""A server as a child process of ours: private ports, a private folder, one log file."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from dev.machine import ServiceError

# Below the ports that outgoing connections get (from 32768 on Linux, 49152 on macOS): a client that keeps trying to
# reach a stopped server there would sooner or later connect to itself, and the server could not take its port again.
FIRST_PORT, LAST_PORT = 20_000, 32_000
LOG_TAIL_LINES = 20
_given: set[int] = set()  # a server that is stopped for a while must find its port free again


def free_ports(count: int) -> list[int]:
    """Return ``count`` TCP ports of 127.0.0.1 that nobody listens on, none of them given out by this process before.

    Raises:
        ServiceError: too few are free.
    """
    ports: list[int] = []
    for _ in range(10_000):
        if len(ports) == count:
            return ports
        port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
        if port in _given:
            continue
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            _given.add(port)
            ports.append(port)
    raise ServiceError(f"no {count} free TCP ports between {FIRST_PORT} and {LAST_PORT} on 127.0.0.1")


def answers_ok(url: str, timeout: float) -> bool:
    """Whether this address answers with code 200."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:  # noqa: S310
            return bool(answer.status == HTTPStatus.OK)
    except (urllib.error.URLError, OSError):
        return False


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log file, indented; for error messages."""
    text = log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(f"    {line}" for line in text) or "    (the log is empty)"


class NativeServer(ABC):
    """Use as a context manager: running inside the block, process and folder gone after it.

    ``stop()`` and ``start()`` in between keep ports and data, as a restart of the machine would;
    ``pause()`` and ``resume()`` freeze the process: its port accepts connections and nothing answers.
    """

    name: ClassVar[str]
    start_timeout: ClassVar[float] = 240.0  # seconds; both servers need two or three on an idle machine
    stop_timeout: ClassVar[float] = 20.0

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix=f"{self.name}-")
        self.folder = Path(self._temporary.name)
        self.log = self.folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> Sequence[str]: ...

    @abstractmethod
    def _environment(self) -> Mapping[str, str]:
        """Variables of the process besides those of ours."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it answers requests as the server that was started; must not raise while nothing listens yet."""

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        """Start the process and return once it answers.

        Raises:
            ServiceError: it ended or did not answer in time; the message shows the end of its log.
        """
        if self._process is not None:
            raise ServiceError(f"{self.name} is running already")
        command = self._command()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C reaches us alone, and we stop the servers in order
            )
        self._wait_until_ready(self._process)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.start_timeout
        while not self._is_ready():
            if process.poll() is not None:
                raise ServiceError(f"{self.name} ended with code {process.returncode} at its start:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise ServiceError(f"{self.name} does not answer after {self.start_timeout:.0f} s:\n{tail(self.log)}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the process, by force when it takes too long; ports and data are kept for ``start()``."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)  # a paused process would not see the next signal
        process.terminate()
        try:
            process.wait(self.stop_timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def pause(self) -> None:
        """Freeze the process; all of its threads have stopped when this returns."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen process go on."""
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the process and delete its folder."""
        self.stop()
        self._temporary.cleanup()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServiceError(f"{self.name} is not running")
        return self._process

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
