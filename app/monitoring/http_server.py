"""Serves fixed paths over HTTP with uvicorn and Starlette. Slow clients, or many clients, do not block other clients.

All computers of a network may reach the port. One thread serves all connections, and answers probes. The number of
connections is limited: at the limit, a new connection closes the oldest connection. A connection serves one request,
and has a time limit. Another thread renders each page at most once per second, so that no probe waits for a page.
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
"""Maps each path to a function. The function receives the path's parameters, and returns the answer or ``None``."""


class AllowedHosts:
    """The host names at which pages may be read. If the user sets ``names``, the host name of every request is checked.

    This check prevents DNS rebinding: a web page resolves its own name to 127.0.0.1, so that a browser on this machine
    lets the page read local ports. The ``Host`` of the page's request is still the page's name.

    Therefore host names of loopback connections are always checked. On other interfaces, every client may read the
    pages. The connector cannot know all host names there, such as names in Kubernetes, of a proxy, or a public name.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = {"localhost", socket.gethostname().lower(), *(name.lower() for name in names)}
        self._is_checked_everywhere = bool(names)

    def allow(self, host: str | None, address: str) -> bool:
        """Returns whether to answer a request.

        ``host`` is the request's ``Host`` header, with or without a port; ``None`` if the header is missing. Every
        browser sends the header. ``address`` is the connector's address in the connection.
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
    """Parses an IP address. Returns ``None`` if the text is not an IP address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address  # from a socket for both IP versions


def listen(host: str, port: int) -> socket.socket:
    """Opens the port at a host name or an IP address. ``0.0.0.0`` and ``::`` mean all interfaces.

    Raises:
        ConfigError: The port is in use, or the host or the port is not allowed.
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
    """Answers requests on a separate thread until the process ends.

    ``pages`` are for users and scrapers, at the ``allowed`` host names. ``probes`` are for the platform: probes answer
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
    """Returns a function that calls ``page`` at most once per second for each page name. 500 partitions need 15 ms."""
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
    """A connection with a time limit. uvicorn does not limit the time of a slow request or of a slow reader."""

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
