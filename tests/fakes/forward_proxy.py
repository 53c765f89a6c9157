"""A proxy as companies have them: clients that want to get out tell it where to."""

import socket
from http import HTTPStatus
from selectors import EVENT_READ, DefaultSelector

from tests.fakes.http_fake import FakeHandler, HttpFake

_SILENT_SECONDS = 60.0


class ForwardProxy(HttpFake):
    """Tunnels for HTTPS; ``asked`` are the hosts and ports that it was asked for."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__(_Handler)
        self.asked: list[str] = []
        self.refuses = refuses


class _Handler(FakeHandler):
    def _is_refused(self, where: str) -> bool:
        proxy: ForwardProxy = self.fake
        proxy.asked.append(where)
        if proxy.refuses:
            self.send_error(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)
        return proxy.refuses

    def do_CONNECT(self) -> None:  # noqa: N802 - the name is the base class's
        if self._is_refused(self.path):
            return
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as there:
            self.send_response_only(HTTPStatus.OK)
            self.end_headers()
            self.close_connection = True
            _tunnel(self.connection, there)


def _tunnel(here: socket.socket, there: socket.socket) -> None:
    """Hand on what either end sends until one of them closes, or both are silent for long."""
    with DefaultSelector() as selector:  # ``select.select`` takes no descriptor above 1,023
        selector.register(here, EVENT_READ, (here, there))
        selector.register(there, EVENT_READ, (there, here))
        while ready := selector.select(_SILENT_SECONDS):
            for key, _ in ready:
                end, other = key.data
                data = end.recv(1 << 16)
                if not data:
                    return
                other.sendall(data)
