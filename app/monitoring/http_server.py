"""A small HTTP server: fixed paths, GET and HEAD alone, and no client can block it.

It may be open to a whole network. One thread serves all connections, so a slow client costs no thread. The number of
connections is bounded: the one that has waited longest for its client gives way to the next. A connection gets one
answer, and an answer is kept for a second: however many requests come, probes wait for few of them.
"""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import ClassVar, Final

from app.errors import ConfigError
from app.monitoring.hosts import AllowedHosts

logger = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 256  # that wait for a request
MOST_ANSWERS: Final = 32  # on their way at once: each is in memory until the client has taken it
_PATIENCE_SECONDS = 20.0  # until a request is complete, or an answer is taken; not from one byte to the next
_BACKLOG = 1024  # connections that the system holds for us; it makes who comes when it is full wait for a second
_ACCEPTED_AT_ONCE = 64  # far fewer than have a place: who was accepted is read before others take the places
_LONGEST_HEAD = 16 * 1024
_PIECE = 64 * 1024
_KEPT_SECONDS = 1.0  # an answer that is no probe's; a page of 500 partitions takes 15 ms
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

# Nothing is loaded, run, embedded or sent anywhere, and a connection gets one answer.
_HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
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


def _in_words(status: int, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())


class HttpServer:
    """Serves on a thread of its own until the process ends.

    Args:
        host: address or name of the interface; ``0.0.0.0`` or ``::`` for all.
        port: TCP port.
        routes: what answers at which path; must be quick and not raise.
        probes: the same for the platform's probes, which are answered whatever host a request names.
        allowed: the host names that the routes answer to.

    Raises:
        ConfigError: the port is taken, or host or port are not allowed.
    """

    def __init__(self, host: str, port: int, routes: Routes, probes: Routes, allowed: AllowedHosts) -> None:
        try:
            listener = _listen(host, port)
        except OSError as error:
            raise ConfigError(
                f"opening HTTP_PORT={port} on HTTP_HOST={host}",
                error.strerror or str(error),
                "Choose another port or host, or port 0 for none",
            ) from None
        connections = _Connections(_Paths(routes, probes, allowed))
        threading.Thread(target=asyncio.run, args=(connections.serve(listener),), name="http", daemon=True).start()


def _listen(host: str, port: int) -> socket.socket:
    """Listen at a name or an address of either kind.

    Raises:
        OSError: there is no such host, or the port is taken.
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class _Paths:
    """Finds the answer to a request."""

    def __init__(self, routes: Routes, probes: Routes, allowed: AllowedHosts) -> None:
        self._routes = routes
        self._probes = probes
        self._allowed = allowed
        self._kept: dict[str, tuple[float, Answer]] = {}

    def answer(self, path: str, host: str | None, address: str) -> Answer:
        """The answer to a GET.

        Args:
            path: without a query.
            host: the ``Host`` of the request.
            address: the one of ours at which the connection came in.
        """
        if probe := self._probes.get(path):
            return probe()
        if not self._allowed.allow(host, address):
            return _in_words(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this host name is not known here: ask for localhost or an IP address, or set HTTP_ALLOWED_HOSTS",
            )
        if path not in self._routes:
            return _in_words(404, f"there are {', '.join([*self._routes, *self._probes])}")
        now = time.monotonic()
        if path not in self._kept or now - self._kept[path][0] >= _KEPT_SECONDS:
            self._kept[path] = now, self._routes[path]()
        return self._kept[path][1]


class _Places:
    """A number of places for connections. When all are taken, the one that was taken first is freed."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._taken: dict[asyncio.StreamWriter, None] = {}

    def take(self, connection: asyncio.StreamWriter) -> None:
        if len(self._taken) >= self._number:
            longest = next(iter(self._taken))
            self.free(longest)
            longest.transport.abort()  # its task wakes up and ends
        self._taken[connection] = None

    def free(self, connection: asyncio.StreamWriter) -> None:
        self._taken.pop(connection, None)


class _Connections:
    """Reads requests and writes answers, for all connections on one thread."""

    def __init__(self, paths: _Paths) -> None:
        self._paths = paths
        self._reading = _Places(MOST_CONNECTIONS)
        self._writing = _Places(MOST_ANSWERS)

    async def serve(self, listener: socket.socket) -> None:
        server = await asyncio.start_server(
            self._connected, sock=listener, limit=_LONGEST_HEAD, backlog=_ACCEPTED_AT_ONCE
        )
        listener.listen(_BACKLOG)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until its end. Never raises."""
        writer.transport.set_write_buffer_limits(0)  # what the system has not taken is waited for
        self._reading.take(writer)
        try:
            await self._exchange(reader, writer)
        except OSError:  # also TimeoutError; a client that went away or is stuck
            logger.debug("an HTTP request failed", exc_info=True)
        except Exception:
            logger.exception("an HTTP request failed")
        finally:
            self._reading.free(writer)
            self._writing.free(writer)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            head = await _read_head(reader)
        if head == b"":
            return
        address = str(writer.get_extra_info("sockname")[0])
        handler = _Handler(head, address, self._paths) if head else None
        self._reading.free(writer)
        self._writing.take(writer)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await _write(writer, handler.head if handler else _TOO_LONG)
            await _write(writer, handler.body if handler else b"")
        self._writing.free(writer)
        self._reading.take(writer)
        writer.write_eof()
        # Closing a connection with bytes that nobody has read would tear the answer away from the client.
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while await reader.read(_PIECE):
                pass


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """The lines of a request up to the empty one; empty if the client went away, ``None`` if they are too many."""
    head = bytearray()
    while len(head) <= _LONGEST_HEAD:
        try:
            line = await reader.readline()
        except ValueError:  # it is too long
            return None
        if not line.endswith(b"\n"):
            return b""
        head += line
        if line in (b"\r\n", b"\n"):
            return bytes(head)
    return None


async def _write(writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Write an answer in pieces: what the client has not taken is not copied."""
    view = memoryview(answer)
    for begin in range(0, len(view), _PIECE):
        writer.write(view[begin : begin + _PIECE])
        await writer.drain()


class _Handler(BaseHTTPRequestHandler):
    """Makes the answer to one request, with the library's parser: ``head`` and ``body``."""

    protocol_version = "HTTP/1.1"
    server_version = "lake-sink"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"
    _ALLOWED: ClassVar[str] = "GET, HEAD"

    def __init__(self, request: bytes, address: str, paths: _Paths) -> None:
        self.rfile = BytesIO(request)
        self.wfile = head = BytesIO()
        self.body = b""
        self._address = address
        self._paths = paths
        self.handle_one_request()  # the library's own constructor does this with a socket
        self.head = head.getvalue()

    def do_GET(self) -> None:
        self._answer(self._found())

    def do_HEAD(self) -> None:
        self._answer(self._found(), with_body=False)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # any other method
            return self._refuse
        raise AttributeError(name)

    def _found(self) -> Answer:
        return self._paths.answer(self.path.partition("?")[0], self.headers["Host"], self._address)

    def _refuse(self) -> None:
        text = f"only {self._ALLOWED} are allowed: nothing can be changed here"
        self._answer(_in_words(HTTPStatus.METHOD_NOT_ALLOWED, text))

    def _answer(self, answer: Answer, *, with_body: bool = True) -> None:
        self.send_response(answer.status)
        headers = {**_HEADERS, "Content-Type": answer.content_type, "Content-Length": str(len(answer.body))}
        if answer.policy:
            headers["Content-Security-Policy"] = answer.policy
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = self._ALLOWED
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.body = answer.body

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        logger.debug("HTTP: " + format, *args)
