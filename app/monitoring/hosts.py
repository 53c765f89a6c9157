"""Decides which host names the status page and the metrics answer to, against DNS rebinding.

A page on the web can let its own name point to 127.0.0.1, and a browser on this machine then lets it read what listens
there. The request names the page's host, and that gives it away.

So names are checked where a connection comes in on the loopback. Elsewhere whoever reaches the port may read it anyway,
and services have names that nobody here knows, such as those of Kubernetes, a proxy or a public address.
"""

import ipaddress
import socket
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

_OWN: Final = "localhost"


class AllowedHosts:
    """The host names that are answered.

    Args:
        named: those of the user; if there are any, they are checked wherever a connection comes in.
    """

    def __init__(self, named: Collection[str] = ()) -> None:
        self._names = {_OWN, socket.gethostname().lower(), *(name.lower() for name in named)}
        self._is_checked_everywhere = bool(named)

    def allow(self, host: str | None, address: str) -> bool:
        """Return whether to answer a request.

        Args:
            host: its ``Host``, with or without a port; ``None`` if it names none, as no browser does.
            address: the one of ours at which the connection came in.
        """
        if host is None or not (self._is_checked_everywhere or _parsed(address).is_loopback):
            return True
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
        except ValueError:  # brackets without an address
            return False
        return name in self._names or _is_address(name)


def _is_address(name: str) -> bool:
    """Whether this is no name at all; nobody can let an address point elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(address)
    return getattr(found, "ipv4_mapped", None) or found  # of a socket that is open for both kinds
