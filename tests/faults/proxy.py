"""An HTTP proxy that does to requests what networks and servers do to them on bad days.

It stands in front of a real server, MinIO or the test catalog, and hands on everything as it came, the Host header
included, so that the signature of a request to S3 stays valid. Rules say which requests meet which fault:

    with FaultProxy(minio.endpoint_url) as proxy:
        store = S3Store(..., endpoint_url=proxy.url)
        lost = proxy.add(Rule(on("PUT", "/_journal/"), Lost(), nth(2)))
        ...                      # the second PUT of a journal is carried out, and its answer never arrives
        assert lost.met == 1
        proxy.clear()            # from here on all goes well again

A rule has three parts, and hooks:

- which requests: ``on(method, path, query=..., body=...)``, or any function from ``Request`` to bool;
- which of these: ``nth(1)``, ``nth(2, 3)``, ``from_on(4)``, all by default, or any function from the number of matching
  requests, this one included, to bool;
- what happens: one of the faults below. ``Forward()``, the default, does no harm: for rules that have only hooks.
- ``before`` and ``after``: called before the request is forwarded, and once the server has answered, on a thread of the
  proxy. They may wait, kill a process, or look at the server. Their errors reset the connection, and are raised again
  where the proxy closes.

Every rule counts the requests that match it; the first one due decides what happens, and only its hooks are called.
All requests are kept in ``proxy.seen``, in the order in which they came.
"""

import http.client
import select
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Event, Lock
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.http_fake import FakeHandler, FakeServer, HttpFake
from tests.support.waiting import PATIENCE, wait_for

_BETWEEN_LOOKS = 0.02
_KEPT_BYTES = 1 << 16  # of each request that was seen: files would be hundreds of megabytes
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_OF_ONE_CONNECTION = frozenset({"connection", "keep-alive", "expect", "transfer-encoding", "content-length"})


@dataclass(slots=True)
class Request:
    """A request as it came.

    ``path`` and the values of ``query`` are decoded, ``target`` is both as they came; names of ``headers`` are in lower
    case.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    path: str = field(init=False)
    query: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.target)
        self.path = unquote(parts.path)
        self.query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def head(self) -> bytes:
        reason = self.reason or HTTPStatus(self.status).phrase
        lines = [f"HTTP/1.1 {self.status} {reason}", *(f"{name}: {value}" for name, value in self.headers.items())]
        if self.status != HTTPStatus.NO_CONTENT:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


Matches = Callable[[Request], bool]
When = Callable[[int], bool]


def on(method: str = "", path: str = "", *, query: str = "", body: str = "") -> Matches:
    """Requests of this method that have these texts in path, undecoded query and body; an empty one fits all."""

    def matches(request: Request) -> bool:
        return (
            request.method == (method or request.method)
            and path in request.path
            and query in request.target.partition("?")[2]
            and body.encode() in request.body
        )

    return matches


def nth(*numbers: int) -> When:
    """These of the matching requests, counted from 1."""
    return lambda count: count in numbers


def from_on(number: int) -> When:
    """The matching request of this number, counted from 1, and all after it."""
    return lambda count: count >= number


# --- faults ---------------------------------------------------------------------------------------------------------


class Fault(Protocol):
    """What becomes of one request."""

    def meet(self, exchange: "Exchange") -> None: ...


@dataclass(frozen=True)
class Forward:
    def meet(self, exchange: "Exchange") -> None:
        exchange.answer(exchange.forward())


@dataclass(frozen=True)
class Say:
    """Another answer: instead of forwarding, or ``applied``, instead of the answer that the server gave."""

    answer: Answer
    applied: bool = False

    def meet(self, exchange: "Exchange") -> None:
        if self.applied:
            exchange.forward()
        exchange.answer(self.answer)


@dataclass(frozen=True)
class Reset:
    """The connection is reset before the server hears of the request."""

    def meet(self, exchange: "Exchange") -> None:
        exchange.reset()


@dataclass(frozen=True)
class Lost:
    """The server does what is asked; then the connection is reset instead of an answer."""

    def meet(self, exchange: "Exchange") -> None:
        exchange.forward()
        exchange.reset()


@dataclass(frozen=True)
class Cut:
    """The connection is closed after half of the answer's body; where it has none, after half of its head."""

    def meet(self, exchange: "Exchange") -> None:
        exchange.answer_half(exchange.forward())


@dataclass(frozen=True)
class Hang:
    """Nothing happens until the client gives up, or ``FaultProxy.release``, which resets the connection."""

    def meet(self, exchange: "Exchange") -> None:
        exchange.wait_until_given_up()
        exchange.reset()


@dataclass(frozen=True)
class Hold:
    """The request waits for ``FaultProxy.release``, and is forwarded then, whether or not its client still waits."""

    def meet(self, exchange: "Exchange") -> None:
        exchange.wait_for_release()
        exchange.answer(exchange.forward())


# --- rules and the proxy --------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Rule:
    """Which requests meet what; see above. ``matched`` and ``met`` count requests."""

    matches: Matches
    fault: Fault = field(default_factory=Forward)
    when: When = lambda _: True
    before: Callable[[Request], object] = lambda _: None
    after: Callable[[Request, int], object] = lambda *_: None
    matched: int = 0
    met: int = 0

    def count(self, request: Request) -> bool:
        if not self.matches(request):
            return False
        self.matched += 1
        return self.when(self.matched)


class FaultProxy(HttpFake):
    """``url`` stands in for the server's address, ``target``; ``seen`` are the requests so far."""

    def __init__(self, target: str) -> None:
        super().__init__(Exchange, _Server)
        self.target = urlsplit(target)
        self._rules: list[Rule] = []
        self._lock = Lock()
        self._released = Event()
        self.errors: list[Exception] = []  # of tests that went wrong on one of the proxy's threads
        self.seen: list[Request] = []

    @property
    def url(self) -> str:
        return super().url + self.target.path

    def add(self, rule: Rule) -> Rule:
        """Let the rule hold from now on, behind those added before, and return it."""
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        with self._lock:
            self._rules.remove(rule)

    def clear(self) -> None:
        """Take all rules away, let go what hangs or is held, and forget the requests seen."""
        with self._lock:
            self._rules.clear()
            self.seen.clear()
        self.release()

    def release(self) -> None:
        with self._lock:
            self._released.set()
            self._released = Event()

    def count(self, matches: Matches) -> int:
        with self._lock:
            return sum(matches(request) for request in self.seen)

    def receive(self, request: Request) -> tuple[Rule, Event]:
        """Note the request, and find what it is to meet and what releases it."""
        with self._lock:
            self.seen.append(request)
            due = [rule for rule in self._rules if rule.count(request)]
            rule = due[0] if due else Rule(on())
            rule.met += 1
            return rule, self._released

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()
        super().__exit__(kind, error, trace)
        if self.errors and error is None:
            raise self.errors[0]


class Exchange(FakeHandler):
    """A request, and the ways to deal with it and its client."""

    asked: Request
    rule: Rule
    released: Event

    def forward(self, as_if: Callable[[Request], Request] = lambda request: request) -> Answer:
        """Let the server do what is asked, or what would be asked ``as_if``, with the rule's hooks around it."""
        self.rule.before(self.asked)
        answer = self._ask_server(as_if(self.asked))
        self.rule.after(self.asked, answer.status)
        return answer

    def answer(self, answer: Answer) -> None:
        self.wfile.write(answer.head + answer.body)

    def answer_half(self, answer: Answer) -> None:
        head = answer.head
        self.wfile.write(head + answer.body[: len(answer.body) // 2] if answer.body else head[: len(head) // 2])
        self.close_connection = True

    def reset(self) -> None:
        """End the connection at once, with what TCP has for that."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.close_connection = True

    def wait_for_release(self) -> None:
        wait_for(self.released, f"the release of {self.asked.method} {self.asked.target}")

    def wait_until_given_up(self) -> None:
        """A client that gives up closes the connection, which can then be read, and has nothing."""
        while not self.released.wait(_BETWEEN_LOOKS):
            if select.select([self.connection], [], [], 0)[0]:
                return

    def _ask_server(self, request: Request) -> Answer:
        """Send the request on, over a connection of its own."""
        connection = http.client.HTTPConnection(self.fake.target.netloc, timeout=PATIENCE)
        try:
            connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name not in _OF_ONE_CONNECTION:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(request.body)))
            connection.putheader("Connection", "close")
            connection.endheaders(request.body or None)
            answer = connection.getresponse()
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in _OF_ONE_CONNECTION}
            return Answer(answer.status, answer.read(), headers, answer.reason)
        finally:
            connection.close()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked = Request(self.command, self.path, headers, body)
        self.rule, self.released = self.fake.receive(self.asked)
        try:
            self.rule.fault.meet(self)
        except BaseException:  # one of the two went away, or a hook went wrong: see handle_error
            self.reset()
            raise
        finally:
            self.asked.body = body[:_KEPT_BYTES]

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names are the base class's


class _Server(FakeServer):
    request_queue_size = 128  # many clients at once are part of the tests

    def shutdown_request(self, request: Any) -> None:
        """Close without the polite end of sending, which a reset must not have."""
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients and servers that go away are part of the tests; anything else is wrong in one of them."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError | http.client.HTTPException):
            proxy: Any = self.fake
            proxy.errors.append(error)
