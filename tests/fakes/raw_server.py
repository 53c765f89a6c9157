"""A server that gives the same bytes to whoever comes, whether or not that is an answer."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def raw_server(answer: bytes) -> Iterator[int]:
    """Accepts, reads something, sends the answer as it is and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the test is over
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
