"""A network of its own for one client: a TCP forwarder that can be cut and mended."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16


class TcpDetour:
    """Forwards 127.0.0.1:``port`` to 127.0.0.1:``target``, set before it is entered.

    While it is cut, connections stay open and nothing goes through them, as with a cable that was pulled: neither side
    is told. New ones are taken and stay silent.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.target = 0
        self._flows = threading.Event()
        self._flows.set()
        self._closed = False
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._closed = True
        self._flows.set()
        for some in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                some.shutdown(socket.SHUT_RDWR)
            some.close()

    def cut(self) -> None:
        self._flows.clear()

    def mend(self) -> None:
        self._flows.set()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # closed, or the server is away
                continue
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flows.wait()
                sink.sendall(data)
        for some in (source, sink):
            with contextlib.suppress(OSError):
                some.shutdown(socket.SHUT_RDWR)
