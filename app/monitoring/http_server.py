"""A small HTTP server: fixed paths, GET and HEAD alone, and no client can block it.

It may be open to a whole network. Each connection has a thread; there are few of them, and a client that keeps one
waiting gives way to the next.
"""

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from app.errors import ConfigError

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 32
_IDLE_SECONDS = 20.0  # of a connection that is kept open, and of one that is stuck
_PATIENCE_SECONDS = 2.0  # a client may keep its thread waiting so long while others wait for one
_LOOK_SECONDS = 0.1

# Nothing is loaded, run, embedded or sent anywhere.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to GET; ``policy`` is a Content-Security-Policy that replaces the one that allows nothing."""

    status: int
    content_type: str
    body: bytes
    policy: str | None = None


Routes = Mapping[str, Callable[[], Answer]]


def not_found(paths: Routes) -> Answer:
    """The answer for an unknown path."""
    return Answer(404, "text/plain; charset=utf-8", f"there are {', '.join(paths)}\n".encode())


class HttpServer:
    """Serves on a thread of its own until the process ends.

    Args:
        host: address or name of the interface; ``0.0.0.0`` or ``::`` for all.
        port: TCP port.
        routes: what answers at which path; must not raise.

    Raises:
        ConfigError: the port is taken, or host or port are not allowed.
    """

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        try:
            server = _Server(host, port, routes)
        except OSError as error:
            raise ConfigError(
                f"opening HTTP_PORT={port} on HTTP_HOST={host}",
                error.strerror or str(error),
                "Choose another port or host, or port 0 for none",
            ) from None
        threading.Thread(target=server.serve_forever, name="http", daemon=True).start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        # A name or an address of either kind; the last entry is what to bind to.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = found[0]
        self._waiting_since: dict[Any, float] = {}
        self._changed = threading.Condition()
        self.routes = routes
        super().__init__(found[4], _Handler)  # type: ignore[arg-type] # four values for IPv6

    def server_bind(self) -> None:
        """Bind without looking up the host's name, as the library does: that may take long."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Make room, then serve the connection on its own thread."""
        with self._changed:
            while len(self._waiting_since) >= MOST_CONNECTIONS:
                if not self._give_up_the_slowest():
                    self._changed.wait(_LOOK_SECONDS)
            self._waiting_since[request] = time.monotonic()
        super().process_request(request, client_address)

    def waits(self, request: Any) -> None:
        """From now on the connection waits for its client: for a request, or to take an answer."""
        with self._changed:
            if request in self._waiting_since:
                self._waiting_since[request] = time.monotonic()

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection: it is closed."""
        with self._changed:
            self._waiting_since.pop(request, None)
            self._changed.notify_all()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as the library calls it
        """Log the failure of a request; a client that went away is worth DEBUG alone."""
        went_away = isinstance(sys.exception(), OSError)
        logger.log(logging.DEBUG if went_away else logging.ERROR, "an HTTP request failed", exc_info=True)

    def _give_up_the_slowest(self) -> bool:
        slowest, since = next(iter(sorted(self._waiting_since.items(), key=lambda item: item[1])))
        if time.monotonic() - since < _PATIENCE_SECONDS:
            return False
        del self._waiting_since[slowest]
        with suppress(OSError):  # the client was faster
            slowest.shutdown(socket.SHUT_RDWR)  # its thread wakes up and ends
        return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True  # headers and body are sent one after the other
    server: _Server
    server_version = "lake-sink"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"
    _ALLOWED: ClassVar[str] = "GET, HEAD"

    def do_GET(self) -> None:
        self._answer(self._found())

    def do_HEAD(self) -> None:
        self._answer(self._found(), with_body=False)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # any other method
            return self._refuse
        raise AttributeError(name)

    def _found(self) -> Answer:
        path = self.path.partition("?")[0]
        answer = self.server.routes.get(path)
        return answer() if answer else not_found(self.server.routes)

    def _refuse(self) -> None:
        self.close_connection = True  # whatever the request has in it is not read
        text = f"only {self._ALLOWED} are allowed: nothing can be changed here\n"
        self._answer(Answer(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", text.encode()))

    def _answer(self, answer: Answer, *, with_body: bool = True) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body is not read, and must not be taken for the next request
        self.server.waits(self.request)
        self.send_response(answer.status)
        headers = {**_HEADERS, "Content-Type": answer.content_type, "Content-Length": str(len(answer.body))}
        if answer.policy:
            headers["Content-Security-Policy"] = answer.policy
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = self._ALLOWED
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)
        self.server.waits(self.request)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        logger.debug("HTTP: " + format, *args)
