"""The real ``main.py`` as a process of its own, watched from outside."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import requests

from dev.child import Child
from dev.connector import REPO, environment
from dev.server import free_ports, tail
from tests.support import waiting

LIGHT = Path(__file__).with_name("light.py")

_LOG_LINES = 60
_PAUSE = 0.1  # seconds; most looks cost a request


class ConnectorProcess(Child):
    """After the block the process and its Java are gone, and had gone by themselves.

    Args:
        settings: the variables to set; all others of the connector count as unset.
        folder: a new folder, for the log and as the process' temporary folder.
        root: the tree whose ``main.py`` is run.
        java: whether Spark writes the files. Without Java, pyarrow does (``tests/e2e/light.py``): a process that is
            the same in all else starts in a tenth of the time.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path, root: Path = REPO, *, java: bool = True) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)  # it may be a disk of its own
        self.log_file = folder / "connector.log"
        self.http_port = int(settings.get("HTTP_PORT") or free_ports(1)[0])
        program = [str(root / "main.py")] if java else [str(LIGHT), str(root)]
        variables = environment({**settings, "HTTP_PORT": str(self.http_port), "TMPDIR": str(self.temporary)})
        # It leads a session: its group is how its Java is found, whatever its parent is by then.
        super().__init__(
            "the connector", [sys.executable, *program], folder=folder, environment=variables, log=self.log_file
        )

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def complaints(self) -> list[str]:
        """The warnings and errors in its log, and what came out of it without being caught."""
        return re.findall(r"^(?:\S+ \S+ (?:WARNING|ERROR|CRITICAL) .*|Traceback.*|ERROR!.*)$", self.log, re.MULTILINE)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait_for_log(self, pattern: str) -> re.Match[str]:
        """The first match of the pattern in all that was printed so far, waiting for it to come."""
        found: list[re.Match[str]] = []

        def look() -> bool:
            found.extend(re.finditer(pattern, self.log, re.MULTILINE))
            return bool(found)

        self.wait_until(look, f"{pattern!r} in the log")
        return found[0]

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until something has happened that the connector is to bring about, which it can while it runs."""

        def look() -> bool:
            ended = self.exit_code is not None  # asked before: what it did last must not be missed
            if found := happened():
                return found
            assert not ended, f"ended with code {self.exit_code} before: {what}\n{self._tail()}"
            return False

        waiting.wait_until(look, what, pause=_PAUSE, details=self._tail)

    def wait_until_ready(self) -> None:
        self.wait_for_log(r"^CONNECTED!$")

    def health(self, probe: str) -> int | None:
        """The status of ``/health/<probe>``, ``None`` while nothing listens."""
        answer = self._get(f"health/{probe}")
        return None if answer is None else answer.status_code

    def page(self, name: str = "") -> str:
        """The status page, or ``metrics``; empty while nothing listens."""
        answer = self._get(name)
        return "" if answer is None else answer.text

    def _get(self, path: str) -> requests.Response | None:
        try:
            return requests.get(f"http://127.0.0.1:{self.http_port}/{path}", timeout=60)
        except requests.ConnectionError:
            return None

    def java(self) -> int | None:
        """The pid of its Java process, ``None`` as long as (or as soon as) there is none."""
        return next((pid for pid, command in self._group() if command.rpartition("/")[2] == "java"), None)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code, waiting for the end."""
        self.wait_until(lambda: self.exit_code is not None, "the end of the process")
        code = self._process.wait()
        if code:
            print(f"ended with code {code}; {self._tail()}")  # noqa: T201 - pytest shows it with a failure
        return code

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait_until_nothing_is_left(self) -> None:
        waiting.wait_until(lambda: not self._group(), "the end of its child processes", details=self._tail)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        try:
            if error is None:
                self.wait_until_nothing_is_left()
        finally:
            super().__exit__(kind, error, trace)

    def _group(self) -> list[tuple[int, str]]:
        """Processes that run (zombies do not) of the session that it leads, itself left out."""
        rows = _processes()
        return [
            (int(pid), command)
            for pid, group, state, command in rows
            if int(group) == self.pid != int(pid) and not state.startswith("Z")
        ]

    def _tail(self) -> str:
        return f"the end of its log:\n{tail(self.log_file, _LOG_LINES)}"


def _processes() -> Sequence[Sequence[str]]:
    """Pid, process group, state and command of every process; a small Linux has no ``ps``, and macOS no ``/proc``."""
    if not Path("/proc/self/stat").exists():
        ask = ["ps", "-A", "-o", "pid=,pgid=,stat=,comm="]
        listed = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
        return [line.split(maxsplit=3) for line in listed.splitlines()]
    rows: list[Sequence[str]] = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            before, _, after = file.read_text(errors="replace").rpartition(")")
            pid, _, command = before.partition(" (")
            state, _, group = after.split()[:3]
            rows.append([pid, group, state, command])
    return rows
