"""A real browser without a window: Chromium, told what to do over a pipe by its DevTools protocol."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from dev.machine import ServiceError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ANSWER_SECONDS = 60.0
_FIRST_FREE_DESCRIPTOR = 10  # Chromium reads from 3 and writes to 4


def browser_program() -> str:
    """The path of a Chromium on this machine.

    Raises:
        ServiceError: there is none.
    """
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise ServiceError("no Chromium on this machine; Debian's is installed by: apt-get install chromium")
    return found


@dataclass
class Seen:
    """What came of a visit to a page.

    ``complaints`` are what the browser's console shows: errors, refused styles, failed requests. ``requested`` are the
    addresses that were asked for. ``picture`` is the whole page as PNG.
    """

    html: str = ""
    picture: bytes = b""
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)


class Browser:
    """Use as a context manager: the process and its profile are gone after the block."""

    def __init__(self) -> None:
        self._program = browser_program()
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        self._numbers = itertools.count(1)
        self._unread = b""

    def look(self, url: str, *questions: str, width: int = 1100, height: int = 900, dark: bool = False) -> Seen:
        """Visit a page, with an empty cache, in a window of this size.

        Args:
            url: of the page.
            questions: JavaScript to evaluate there; what it comes to is in ``answers``.
            width, height: of the window, in pixels.
            dark: what the user's system prefers.
        """
        seen = Seen()
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

        def call(method: str, **parameters: Any) -> Any:
            return self._call(method, seen, session, **parameters)

        for domain in ("Page", "Runtime", "Log", "Network"):
            call(f"{domain}.enable")
        call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        call("Emulation.setScrollbarsHidden", hidden=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        call("Emulation.setEmulatedMedia", features=[scheme])
        call("Page.navigate", url=url)
        self._wait(lambda message: message.get("method") == "Page.loadEventFired", seen)
        seen.html = _evaluated(call("Runtime.evaluate", expression="document.documentElement.outerHTML"))
        for question in questions:
            seen.answers[question] = _evaluated(call("Runtime.evaluate", expression=question, returnByValue=True))
        picture = call("Page.captureScreenshot", captureBeyondViewport=True)
        seen.picture = base64.b64decode(picture["data"])
        self._call("Target.closeTarget", targetId=target)
        return seen

    def __enter__(self) -> Self:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Clear of 3 and 4, which a descriptor of the pipes might have by chance.
        child_reads, child_writes = (
            fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR)
            for descriptor in (to_browser, from_browser)
        )

        def hand_over() -> None:
            os.dup2(child_reads, 3)
            os.dup2(child_writes, 4)

        self._process = subprocess.Popen(
            [
                self._program,
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",  # it cannot be root otherwise, and sees nothing but our own pages
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                f"--user-data-dir={self._profile.name}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=hand_over,  # noqa: PLW1509 - two calls of the system
            start_new_session=True,
        )
        for descriptor in (to_browser, from_browser, child_reads, child_writes):
            os.close(descriptor)
        try:
            self._call("Browser.getVersion")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and delete its profile."""
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    # --- the protocol: JSON messages, each with a zero byte at its end ----------------------------------------------

    def _call(self, method: str, seen: Seen | None = None, session: str | None = None, /, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda found: found.get("id") == number, seen or Seen())
        if "error" in answer:
            raise ServiceError(f"the browser refuses {method}: {answer['error']['message']}")
        return answer["result"]

    def _wait(self, is_wanted: Callable[[dict[str, Any]], bool], seen: Seen) -> dict[str, Any]:
        until = time.monotonic() + _ANSWER_SECONDS
        while True:
            message = self._next(until)
            _note(message, seen)
            if is_wanted(message):
                return message

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self._read, 2**16) if ready else b""
            if not more:
                raise ServiceError("the browser does not answer" if not ready else "the browser has ended")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


def _evaluated(answer: Any) -> Any:
    if "exceptionDetails" in answer:
        raise ServiceError(f"the page raises {answer['exceptionDetails'].get('exception', {}).get('description')}")
    return answer["result"].get("value")


def _note(message: dict[str, Any], seen: Seen) -> None:
    """Keep what the page asked for, and what went wrong with it."""
    told = message.get("params", {})
    match message.get("method"):
        case "Network.requestWillBeSent":
            seen.requested.append(told["request"]["url"])
        case "Network.loadingFailed":
            seen.complaints.append(f"failed: {told['errorText']} {told.get('blockedReason', '')}")
        case "Log.entryAdded":
            seen.complaints.append(told["entry"]["text"])
        case "Runtime.exceptionThrown":
            seen.complaints.append(told["exceptionDetails"]["text"])
        case "Runtime.consoleAPICalled":
            seen.complaints.append(str(told["args"]))
