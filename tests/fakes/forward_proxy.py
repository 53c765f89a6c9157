"""A proxy as companies have them: clients that want to get out tell it where to."""

import select
import socket
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class ForwardProxy:
    """Tunnels for HTTPS, hands on for HTTP; ``asked`` are the hosts and ports that it was asked for.

    Args:
        refuses: says no to everything.
    """

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[str] = []
        self.refuses = refuses
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.proxy = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: ForwardProxy


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _is_refused(self, where: str) -> bool:
        self.server.proxy.asked.append(where)
        if self.server.proxy.refuses:
            self.send_error(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)
        return self.server.proxy.refuses

    def do_CONNECT(self) -> None:
        if self._is_refused(self.path):
            return
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as there:
            self.send_response_only(HTTPStatus.OK)
            self.end_headers()
            here = self.connection
            while ready := select.select([here, there], [], [], 60)[0]:
                for end in ready:
                    data = end.recv(1 << 16)
                    if not data:
                        self.close_connection = True
                        return
                    (there if end is here else here).sendall(data)

    def _hand_on(self) -> None:
        parts = urlsplit(self.path)
        if self._is_refused(parts.netloc):
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = HTTPConnection(parts.netloc)
        connection.request(self.command, self.path, body, {name: self.headers[name] for name in self.headers})
        answer = connection.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "content-length"}:
                self.send_header(name, value)
        if answer.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = _hand_on  # noqa: N815 - the names are the base class's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Keep quiet: the tests show what matters."""
