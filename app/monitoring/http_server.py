"""Serves fixed paths over HTTP with uvicorn and Starlette; slow or many clients do not block others.

The port may be open to a whole network. One thread serves all connections, and answers probes. Their number is bounded:
a new connection closes the oldest one. Each connection has one request and one answer, and a time limit for both.
Another thread renders the pages, so that no probe waits for one, and each at most once in a second.
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
_PATIENCE_SECONDS = 20.0  # from the begin of a connection until the client has taken the answer
_BACKLOG = 1024  # connections that the system holds for us; a client waits for a second when it is full
_ACCEPTED_AT_ONCE = 64  # far below MOST_CONNECTIONS: a new connection is read before others take its place
_LONGEST_HEAD = 16 * 1024
_KEPT_SECONDS = 1.0  # a page
_MOST_KEPT = 256  # pages of tables
_T = TypeVar("_T")

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Referrer-Policy": "no-referrer",
    "Server": "lake-sink",
    "X-Content-Type-Options": "nosniff",
}
_UNKNOWN_HOST: Final = PlainTextResponse(
    "this host name is not known here: ask for localhost or an IP address, or set HTTP_ALLOWED_HOSTS\n", 421
)

Pages = Mapping[str, Callable[..., Response | None]]
"""Paths, and functions that return their answers, by what a path has in braces; ``None`` for a name without a page."""


class AllowedHosts:
    """The host names that the pages answer to, against DNS rebinding; if the user ``named`` any, all are checked.

    A web page can resolve its own name to 127.0.0.1; a browser on this machine then lets it read local ports. The
    request still has the page's name as its ``Host``.

    So names are checked for connections on the loopback. Elsewhere every client of the port may read it, and a service
    has unknown names: of Kubernetes, a proxy or a public address.
    """

    def __init__(self, named: Collection[str] = ()) -> None:
        self._names = {"localhost", socket.gethostname().lower(), *(name.lower() for name in named)}
        self._is_checked_everywhere = bool(named)

    def allow(self, host: str | None, address: str) -> bool:
        """Returns whether to answer a request.

        ``host`` is its ``Host``, with or without a port, ``None`` if it has none; every browser sends one. ``address``
        is our end of the connection.
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
    """Returns the IP address that this is, ``None`` for a name."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found  # from a socket for both IP versions


def listen(host: str, port: int) -> socket.socket:
    """Opens the port at a name, or an IPv4 or IPv6 address; ``0.0.0.0`` or ``::`` are all interfaces.

    Raises:
        ConfigError: the port is taken, or host or port are not allowed.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        is_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=is_both)
    except (OSError, UnicodeError) as error:  # a name with two dots in a row is a UnicodeError
        raise ConfigError(
            f"opening HTTP_PORT={port} on HTTP_HOST={host}",
            str(getattr(error, "strerror", None) or error).partition(" (while")[0],  # Python names the address again
            "Choose another port or host, or port 0 for none",
        ) from None


def serve(listener: socket.socket, pages: Pages, probes: Pages, allowed: AllowedHosts) -> None:
    """Answers on a thread until the process ends.

    ``pages`` are for people and scrapers, at the ``allowed`` host names. ``probes`` are for the platform: answered for
    every ``Host``, whatever the pages do.
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
    """Calls this once in each second at most, for each name: 500 partitions take 15 ms."""
    results, second = lru_cache(_MOST_KEPT)(page), 0.0

    def in_second(**named: str) -> _T:
        nonlocal second
        if second != (second := time.monotonic() // _KEPT_SECONDS):
            results.cache_clear()
        return results(**named)

    return in_second


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
            oldest = min(open_ones, key=lambda each: each._deadline.when())
            open_ones.remove(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)
