"""The HTTP server as a platform, a scraper, a browser and a nuisance meet it: pages, probes and host names."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPResponse
from threading import Event
from types import MappingProxyType

import pytest
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from app.errors import ConfigError
from app.monitoring import http_server
from app.monitoring.http_server import AllowedHosts, Pages, listen, serve
from tests.support.waiting import PATIENCE, wait_for, wait_until

BIG = b"x" * 20_000_000  # more than the system takes for a client that reads nothing
LOOPBACK = ["127.0.0.1", "127.0.0.6", "::1", "::ffff:127.0.0.1"]
OTHER = ["10.1.2.3", "172.17.0.2", "fd00::1", "::ffff:10.1.2.3"]


KNOWN = ["localhost", "LocalHost:8080", "localhost.", "127.0.0.1:8080", "[::1]:8080", "10.9.8.7", socket.gethostname()]
STRANGE = ["evil.example", "evil.example:8080", "localhost.evil.example", "notlocalhost", "", "[::1", ":80"]
OF_A_SERVICE = ["sink.lake.svc.cluster.local:8080", "sink-acme.deployments.example.com", "sink", "10.1.2.3"]


@pytest.fixture(scope="module")
def port() -> int:
    pages = {
        "/": lambda: HTMLResponse("<p>hello</p>"),
        "/sick": lambda: PlainTextResponse("no\n", 503),
        "/big": lambda: Response(BIG),
        "/broken": broken,
    }
    return served(pages, {"/alive": lambda: PlainTextResponse("yes\n")})


def served(pages: Pages, probes: Pages = MappingProxyType({})) -> int:
    """Serve these, and return the port."""
    listener = listen("127.0.0.1", 0)
    serve(listener, pages, probes, AllowedHosts(["Lake.example"]))
    return int(listener.getsockname()[1])


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, no connection ends by its time, unless a test is about it."""
    monkeypatch.setattr(http_server, "_PATIENCE_SECONDS", 10 * PATIENCE)


def broken() -> Response:
    raise ValueError("a bug")


@pytest.fixture
def connection(port: int) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    yield connection
    connection.close()


def ask(connection: HTTPConnection, method: str, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read()


def status(port: int, path: str = "/") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
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
def test_nothing_can_be_changed(connection: HTTPConnection, method: str) -> None:
    answer, _ = ask(connection, method, "/")
    assert (answer.status, set(answer.headers["Allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize("path", ["/health", "/sick/", "/../", "/%2e%2e/etc/passwd"])
def test_other_paths_say_which_there_are(connection: HTTPConnection, path: str) -> None:
    answer, body = ask(connection, "GET", path)
    assert (answer.status, body) == (404, b"there are /, /sick, /big, /broken, /alive\n")


@pytest.mark.parametrize("path", ["/", "/nowhere"])
def test_a_host_name_that_is_not_known_is_refused(connection: HTTPConnection, path: str) -> None:
    answer, body = ask(connection, "GET", path, Host="evil.example:80", **{"X-Forwarded-Host": "localhost"})
    assert answer.status == 421
    assert b"use localhost" in body
    assert b"HTTP_ALLOWED_HOSTS" in body
    assert ask(connection, "GET", "/", Host="LAKE.EXAMPLE.:443")[0].status == 200


def test_a_request_may_name_no_host(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.makefile("rb").readline().split()[1] == b"200"


def test_every_answer_forbids_what_a_browser_might_do_with_it(connection: HTTPConnection) -> None:
    for method, path in (("GET", "/sick"), ("GET", "/nowhere"), ("POST", "/")):
        answer, _ = ask(connection, method, path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Server"].strip() == "lake-sink"  # and no version


@pytest.mark.parametrize(
    "said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n"], ids=["nothing", "half a line", "half a head"]
)
def test_slow_clients_give_way_to_the_next(port: int, said: bytes) -> None:
    with ExitStack() as slow:
        clients = []
        for _ in range(http_server.MOST_CONNECTIONS + 8):
            client = slow.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            client.sendall(said)
            clients.append(client)
        assert status(port) == 200
        wait_until(lambda: select.select([clients[0]], [], [], 0)[0], "who has waited longest goes")


def test_a_probe_is_answered_beside_clients_that_send_many_requests_and_read_no_answer(port: int) -> None:
    requests = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50
    with ExitStack() as clients:
        for _ in range(300):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            client.sendall(requests)
        assert status(port, "/alive") == 200


@pytest.fixture
def gate() -> Iterator[Event]:
    gate = Event()
    yield gate
    gate.set()


def test_a_probe_is_answered_while_a_page_is_rendered(gate: Event) -> None:
    begun = Event()

    def page() -> Response:
        begun.set()
        wait_for(gate, "the test opens the gate")
        return PlainTextResponse("rendered")

    port = served({"/": page}, {"/alive": lambda: PlainTextResponse("yes")})
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        wait_for(begun, "the page is being rendered")
        assert status(port, "/alive") == 200
        gate.set()
        assert client.makefile("rb").read().endswith(b"rendered")


def test_pages_of_several_names_are_rendered_once_each_and_none_for_an_unknown_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "_CACHE_SECONDS", 10 * PATIENCE)
    rendered: list[str] = []

    def page(name: str) -> Response | None:
        if name == "c":
            return None
        rendered.append(name)
        return PlainTextResponse(name)

    port = served({"/of-{name}": page})
    assert [status(port, f"/of-{name}") for name in "abc" * 20] == [200, 200, 404] * 20
    assert rendered == ["a", "b"]
    monkeypatch.setattr(http_server, "_CACHE_SECONDS", 1e-9)
    assert [status(port, f"/of-{name}") for name in "aa"] == [200, 200]
    assert rendered == ["a", "b", "a", "a"], "later it is rendered again"


def test_a_request_has_its_time_as_a_whole(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client, suppress(ConnectionError):
        client.sendall(b"GET / HTTP/1.1\r\n")
        # Each byte would begin a limit between two reads anew; they are fewer than a head may have.
        wait_until(
            lambda: select.select([client], [], [], 0)[0] or not client.send(b"x"), "the server ends it", pause=0.03
        )


def test_an_answer_has_its_time_as_a_whole(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE_SECONDS", 0.2)
    lost, ended = http_server._Connection.connection_lost, set[int]()

    def connection_lost(self: http_server._Connection, error: Exception | None) -> None:
        ended.add(self.client[1] if self.client else 0)
        lost(self, error)

    monkeypatch.setattr(http_server._Connection, "connection_lost", connection_lost)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client, suppress(ConnectionError):
        client.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: client.getsockname()[1] in ended, "the server ends it")
        assert len(client.makefile("rb").read()) < len(BIG)


def test_a_page_that_fails_is_logged_and_others_are_answered(port: int, caplog: pytest.LogCaptureFixture) -> None:
    assert status(port, "/broken") == 500
    assert [record.name for record in caplog.records] == ["app.monitoring.http_server"]
    assert status(port) == 200


def test_a_port_that_is_taken_is_a_mistake_in_the_settings(port: int) -> None:
    with pytest.raises(ConfigError) as caught:
        listen("127.0.0.1", port)
    assert str(caught.value) == (
        f"opening HTTP_PORT={port} on HTTP_HOST=127.0.0.1: Address already in use. "
        "Set another port or host, or HTTP_PORT=0 for none"
    )


@pytest.mark.parametrize("host", ["no such host", "two..dots"])
def test_a_host_that_is_none_is_a_mistake_in_the_settings(host: str) -> None:
    with pytest.raises(ConfigError, match=f"HTTP_HOST={host}"):
        listen(host, 8080)


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
    listener = listen(host, 0)
    serve(listener, {"/": lambda: PlainTextResponse("here")}, {}, AllowedHosts())
    connection = HTTPConnection(asked, listener.getsockname()[1], timeout=60)
    assert ask(connection, "GET", "/")[1] == b"here"
    assert ask(connection, "GET", "/", Host="evil.example")[0].status == 421, "it comes in on the loopback"
    connection.close()


@pytest.mark.parametrize(
    ("addresses", "hosts", "is_allowed"),
    [(LOOPBACK, STRANGE, False), (LOOPBACK, [None, *KNOWN], True), (OTHER, OF_A_SERVICE, True)],
    ids=["on the loopback other names", "on the loopback addresses and own names", "elsewhere any name"],
)
def test_what_is_answered(addresses: list[str], hosts: list[str | None], is_allowed: bool) -> None:
    found = {(host, address): AllowedHosts().allow(host, address) for host in hosts for address in addresses}
    assert found == dict.fromkeys(found, is_allowed)


@pytest.mark.parametrize("address", [*LOOPBACK, *OTHER])
def test_names_of_the_user_are_checked_everywhere(address: str) -> None:
    allowed = AllowedHosts(["Status.Example.com", "sink"])
    assert all(
        allowed.allow(host, address) for host in ["status.example.com:443", "SINK:8080", "localhost", "10.1.2.3"]
    )
    assert not allowed.allow("evil.example", address)
    assert not allowed.allow("x.status.example.com", address)
