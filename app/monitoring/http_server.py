"""Serves fixed paths over HTTP with uvicorn and Starlette; slow or many clients do not block other clients.

The port may be open to a complete network. One thread serves all connections, and answers probes. The number of
connections is limited: a new connection closes the oldest one. Each connection has one request and one answer, and a
time limit for both. Another thread renders each page at most once per second, so that no probe waits for a page.
"""

import ipaddress
import logging
import socket
import threading
import time
from asyncio import BaseTransport, Transport, get_running_loop
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.errors import ConfigError

logger = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 256
_PATIENCE_SECONDS = 20.0  # from the start of a connection until the client has read the answer
_BACKLOG = 1024  # connections that the system queues; when the queue is full, a client waits for a second
_ACCEPTED_AT_ONCE = 64  # far below MOST_CONNECTIONS: a new connection is read before newer ones replace it
_LONGEST_HEAD = 16 * 1024
_CACHE_SECONDS = 1.0
_MOST_CACHED = 256  # pages of tables
_T = TypeVar("_T")

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Referrer-Policy": "no-referrer",
    "Server": "lake-sink",
    "X-Content-Type-Options": "nosniff",
}
_UNKNOWN_HOST: Final = PlainTextResponse(
    "this host name is not allowed here: use localhost or an IP address, or set HTTP_ALLOWED_HOSTS\n", 421
)

Pages = Mapping[str, Callable[..., Response | None]]
"""Paths, and functions of their parameters that return the answers; ``None`` for a name without a page."""


class AllowedHosts:
    """The host names for which the pages answer, against DNS rebinding; with ``names`` by the user, all are checked.

    A web page can resolve its own name to 127.0.0.1; a browser on this machine then lets it read local ports. The
    request still has the page's name as its ``Host``.

    Therefore names are checked for connections on the loopback. Elsewhere every client of the port may read it, and a
    service has names that the connector does not know: of Kubernetes, a proxy or a public address.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = {"localhost", socket.gethostname().lower(), *(name.lower() for name in names)}
        self._is_checked_everywhere = bool(names)

    def allow(self, host: str | None, address: str) -> bool:
        """Returns whether to answer a request.

        ``host`` is the request's ``Host``, with or without a port; ``None`` without one, but every browser sends one.
        ``address`` is our end of the connection.
        """
        own = _address(address)
        if host is None or not (self._is_checked_everywhere or (own and own.is_loopback)):
            return True
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
        except ValueError:  # brackets without an address
            return False
        return name in self._names or _address(name) is not None  # an address cannot be rebound


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parses an IP address; ``None`` for a name."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address  # from a socket for both IP versions


def listen(host: str, port: int) -> socket.socket:
    """Opens the port at a name, or an IPv4 or IPv6 address; ``0.0.0.0`` or ``::`` are all interfaces.

    Raises:
        ConfigError: The port is in use, or host or port are not allowed.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        is_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=is_both)
    except (OSError, UnicodeError) as error:  # a name with two dots in a row is a UnicodeError
        raise ConfigError(
            f"opening HTTP_PORT={port} on HTTP_HOST={host}",
            str(getattr(error, "strerror", None) or error).partition(" (while")[0],  # Python repeats the address there
            "Set another port or host, or HTTP_PORT=0 for none",
        ) from None


def serve(listener: socket.socket, pages: Pages, probes: Pages, allowed: AllowedHosts) -> None:
    """Answers on a thread until the process ends.

    ``pages`` are for users and scrapers, at the ``allowed`` host names. ``probes`` are for the platform: they answer
    for every ``Host``, and do not wait for pages.
    """
    config = uvicorn.Config(
        _app(pages, probes, allowed),
        http=_Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL + 1,  # the connector logs what an operator needs
        access_log=False,
        proxy_headers=False,
        date_header=False,
        headers=list(_HEADERS.items()),
        backlog=_ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
    )
    threading.Thread(target=_Server(config).run, args=([listener],), name="http", daemon=True).start()


def _app(pages: Pages, probes: Pages, allowed: AllowedHosts) -> ASGIApp:
    renderer = ThreadPoolExecutor(1, thread_name_prefix="pages")
    paths = [*pages, *probes]
    unknown = PlainTextResponse(f"there are {', '.join(path for path in paths if '.' not in path)}\n", 404)
    routes = [Route(path, _endpoint(kept(page), unknown, renderer)) for path, page in pages.items()]
    routes += [Route(path, _endpoint(probe, unknown)) for path, probe in probes.items()]
    router = Router(routes, redirect_slashes=False, default=unknown)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_allowed = scope["path"] in probes or allowed.allow(Headers(scope=scope).get("host"), scope["server"][0])
        await (router if is_allowed else _UNKNOWN_HOST)(scope, receive, send)

    return app


def _endpoint(
    answer: Callable[..., Response | None], unknown: Response, executor: Executor | None = None
) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        work = partial(answer, **request.path_params)
        try:
            return (await get_running_loop().run_in_executor(executor, work) if executor else work()) or unknown
        except Exception:
            logger.exception("an HTTP request failed")
            raise  # uvicorn answers 500

    return endpoint


def kept(page: Callable[..., _T]) -> Callable[..., _T]:
    """Returns a function that calls ``page`` at most once per second and name: 500 partitions need 15 ms."""
    results, second = lru_cache(_MOST_CACHED)(page), 0.0

    def call(**named: str) -> _T:
        nonlocal second
        if second != (second := time.monotonic() // _CACHE_SECONDS):
            results.cache_clear()
        return results(**named)

    return call


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts with a backlog larger than the number of connections accepted at once."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)


class _Connection(H11Protocol):
    """A connection with a time limit; uvicorn has none for a slow request or a slow reader."""

    def connection_made(self, transport: BaseTransport) -> None:
        transport = cast("Transport", transport)
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_PATIENCE_SECONDS, transport.abort)
        open_ones = cast("set[_Connection]", self.connections)
        if len(open_ones) > MOST_CONNECTIONS:
            oldest = min(open_ones, key=lambda connection: connection._deadline.when())
            open_ones.remove(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)
