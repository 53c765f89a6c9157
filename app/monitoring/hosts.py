"""Decides which host names the status page and the metrics answer to, against DNS rebinding.

A web page can resolve its own name to 127.0.0.1; a browser on this machine then lets it read local ports. The request
still has the page's name as its ``Host``.

So names are checked for connections on the loopback. Elsewhere every client of the port may read it, and a service has
unknown names: of Kubernetes, a proxy or a public address.
"""

import ipaddress
import socket
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

_OWN: Final = "localhost"


class AllowedHosts:
    """The accepted host names; if the user has ``named`` any, all connections are checked."""

    def __init__(self, named: Collection[str] = ()) -> None:
        self._names = {_OWN, socket.gethostname().lower(), *(name.lower() for name in named)}
        self._is_checked_everywhere = bool(named)

    def allow(self, host: str | None, address: str) -> bool:
        """Returns whether to answer a request.

        ``host`` is its ``Host``, with or without a port, ``None`` if it has none; every browser sends one. ``address``
        is our end of the connection.
        """
        if host is None or not (self._is_checked_everywhere or _parsed(address).is_loopback):
            return True
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
        except ValueError:  # brackets without an address
            return False
        return name in self._names or _is_address(name)


def _is_address(name: str) -> bool:
    """Whether this is an IP address, which cannot be rebound."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(address)
    return getattr(found, "ipv4_mapped", None) or found  # from a socket for both IP versions
