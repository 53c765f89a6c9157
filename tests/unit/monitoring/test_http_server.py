"""The HTTP server as a platform, a scraper, a browser and a nuisance meet it."""

import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPResponse

import pytest

from app.errors import ConfigError
from app.monitoring import http_server
from app.monitoring.hosts import AllowedHosts
from app.monitoring.http_server import Answer, HttpServer
from dev.server import free_ports

TEXT = "text/plain; charset=utf-8"
BIG = b"x" * 20_000_000  # more than the system takes for a client that reads nothing


@pytest.fixture(scope="module")
def port() -> int:
    [port] = free_ports(1)
    routes = {
        "/": lambda: Answer(200, "text/html", b"<p>hello</p>", policy="default-src 'self'"),
        "/sick": lambda: Answer(503, TEXT, b"no\n"),
        "/big": lambda: Answer(200, TEXT, BIG),
    }
    HttpServer(
        "127.0.0.1", port, routes, {"/alive": lambda: Answer(200, TEXT, b"yes\n")}, AllowedHosts(["Lake.example"])
    )
    return port


@pytest.fixture
def connection(port: int) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    yield connection
    connection.close()


def ask(connection: HTTPConnection, method: str, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read()


def status(port: int, path: str = "/") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        return ask(connection, "GET", path)[0].status
    finally:
        connection.close()


@pytest.mark.parametrize(("path", "code", "body"), [("/", 200, b"<p>hello</p>"), ("/sick?why=1", 503, b"no\n")])
def test_get_and_head_tell_the_same(connection: HTTPConnection, path: str, code: int, body: bytes) -> None:
    got, content = ask(connection, "GET", path)
    assert (got.status, content) == (code, body)
    head, nothing = ask(connection, "HEAD", path)
    assert (head.status, nothing) == (code, b"")
    assert head.headers["Content-Length"] == str(len(body))
    assert head.headers["Content-Type"] == got.headers["Content-Type"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/nowhere"])
def test_nothing_can_be_changed(connection: HTTPConnection, method: str, path: str) -> None:
    answer, body = ask(connection, method, path)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.headers["Connection"] == "close"
    assert b"nothing can be changed" in body


@pytest.mark.parametrize("path", ["/health", "/sick/", "/../", "/%2e%2e/etc/passwd"])
def test_other_paths_say_which_there_are(connection: HTTPConnection, path: str) -> None:
    answer, body = ask(connection, "GET", path)
    assert (answer.status, body) == (404, b"there are /, /sick, /big, /alive\n")


@pytest.mark.parametrize("path", ["/", "/nowhere"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_host_name_that_is_not_known_is_refused(connection: HTTPConnection, method: str, path: str) -> None:
    answer, body = ask(connection, method, path, Host="evil.example:80", **{"X-Forwarded-Host": "localhost"})
    assert answer.status == 421
    assert "evil" not in str(answer.headers)
    assert method == "HEAD" or (b"ask for localhost" in body and b"HTTP_ALLOWED_HOSTS" in body)


def test_the_probes_answer_whatever_the_host(connection: HTTPConnection) -> None:
    answer, body = ask(connection, "GET", "/alive", Host="evil.example")
    assert (answer.status, body) == (200, b"yes\n")


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "10.1.2.3:80", "lake.example", "LAKE.EXAMPLE.:443"])
def test_other_hosts_are_answered(connection: HTTPConnection, host: str) -> None:
    assert ask(connection, "GET", "/", Host=host)[0].status == 200


def test_a_request_may_name_no_host(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.makefile("rb").readline().split()[1] == b"200"


def test_every_answer_forbids_what_a_browser_might_do_with_it(connection: HTTPConnection) -> None:
    for method, path in (("GET", "/sick"), ("GET", "/nowhere"), ("POST", "/")):
        answer, _ = ask(connection, method, path)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Server"].strip() == "lake-sink"  # and no version
    page, _ = ask(connection, "GET", "/")
    assert page.headers["Content-Security-Policy"] == "default-src 'self'"


def test_the_body_of_a_request_is_not_taken_for_another_request(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        smuggled = b"GET /sick HTTP/1.1\r\nHost: localhost\r\n\r\n"
        head = f"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(smuggled)}\r\n\r\n"
        client.sendall(head.encode() + smuggled)
        answer = client.makefile("rb").read()
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "request_line",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000,
    ],
    ids=["no request", "no version", "a long line", "many lines"],
)
def test_what_is_no_request_is_refused(port: int, request_line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(request_line)
        answer = client.makefile("rb").read()
    assert b" 200 " not in answer
    assert b"<" not in answer  # what was sent does not come back as HTML
    assert status(port) == 200


def test_many_clients_at_once_are_all_served(port: int) -> None:
    with ThreadPoolExecutor(100, "client") as clients:
        codes = list(clients.map(lambda _: status(port), range(300)))
    assert codes == [200] * 300


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["nothing", "half a line", "half a head", "reads no answer"],
)
def test_slow_clients_give_way_to_the_next(port: int, said: bytes) -> None:
    with ExitStack() as slow:
        first = None
        for _ in range(http_server.MOST_CONNECTIONS + 8):
            client = slow.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(said)
            first = first or client
        assert status(port) == 200
        assert first is not None
        assert is_closed(first), "who has waited longest went"


def is_closed(client: socket.socket) -> bool:
    """Whether the server has ended the connection; reads what it sent before."""
    client.settimeout(20)
    try:
        while client.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_probes_are_answered_while_hundreds_of_clients_trickle(port: int) -> None:
    with ExitStack() as slow:
        address = ("127.0.0.1", port)
        clients = [slow.enter_context(socket.create_connection(address, timeout=20)) for _ in range(400)]
        for byte in b"GET / HTTP/1.1\r\n":
            for client in clients:
                with suppress(ConnectionError):  # it had to give way
                    client.send(bytes([byte]))
            assert status(port) == 200


def test_a_request_has_its_time_as_a_whole(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client, suppress(ConnectionError):
        client.sendall(b"GET / HTTP/1.1\r\n")
        while not select.select([client], [], [], 0.01)[0]:  # until the server has ended it
            client.send(b"x")
        assert client.recv(100) == b""


def test_an_answer_has_its_time_as_a_whole(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        size = 0
        with suppress(ConnectionError):
            while got := client.recv(100_000):
                size += len(got)
                time.sleep(0.01)
        assert size < len(BIG)


def test_a_client_that_went_away_is_no_error(port: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closing resets the connection
    client.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client.close()
    deadline = time.monotonic() + 10
    while not (failures := [each for each in caplog.records if "request failed" in each.message]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert {record.levelname for record in failures} == {"DEBUG"}
    assert status(port) == 200


def test_a_port_that_is_taken_is_a_mistake_in_the_settings(port: int) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpServer("127.0.0.1", port, {}, {}, AllowedHosts())
    assert str(caught.value) == (
        f"opening HTTP_PORT={port} on HTTP_HOST=127.0.0.1: Address already in use. "
        "Choose another port or host, or port 0 for none"
    )


def test_a_host_that_is_none_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="HTTP_HOST=no such host"):
        HttpServer("no such host", free_ports(1)[0], {}, {}, AllowedHosts())


def knows_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "asked"),
    [("0.0.0.0", "127.0.0.1"), ("localhost", "localhost"), *([("::", "127.0.0.1"), ("::", "::1")] * knows_ipv6())],  # noqa: S104
)
def test_other_interfaces(host: str, asked: str) -> None:
    [port] = free_ports(1)
    HttpServer(host, port, {"/": lambda: Answer(200, TEXT, b"here")}, {}, AllowedHosts())
    connection = HTTPConnection(asked, port, timeout=20)
    assert ask(connection, "GET", "/")[1] == b"here"
    assert ask(connection, "GET", "/", Host="evil.example")[0].status == 421, "it comes in on the loopback"
    connection.close()
