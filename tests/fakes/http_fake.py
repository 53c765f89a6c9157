"""What is common to the HTTP servers of the tests."""

import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self


class HttpFake:
    """A context manager: a server on a free port of this machine, which answers on threads of its own."""

    def __init__(self, handler: type["FakeHandler"], server: type["FakeServer"] | None = None) -> None:
        self._http = (server or FakeServer)(("127.0.0.1", 0), handler)
        self._http.fake = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()


class FakeHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection; ``fake`` is the server as its test knows it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body follows the head at once, not 40 ms later
    server: "FakeServer"

    @property
    def fake(self) -> Any:
        return self.server.fake

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Answer with the length, unless the headers promise another one; adds no Date of its own."""
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Keep quiet: the tests show what matters."""


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    fake: HttpFake

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that did not wait for its answer is no error of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
