"""The proxy does what its faults say, else the tests that use it would prove nothing."""

import json
from collections.abc import Iterator

import pytest
import requests

from tests.fakes.canned_server import Answer as Canned
from tests.fakes.canned_server import CannedServer
from tests.faults.members import wait_until
from tests.faults.proxy import (
    Answer,
    Cut,
    FaultProxy,
    Hang,
    Hold,
    Lost,
    Request,
    Reset,
    Rule,
    Say,
    Slow,
    from_on,
    nth,
    on,
)

BODY = b"0123456789" * 10
WAIT = 30.0


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with CannedServer(Canned(200, BODY, {"ETag": '"1"', "X-Odd": "a: b"})) as server:
        yield server


@pytest.fixture
def proxy(server: CannedServer) -> Iterator[FaultProxy]:
    with FaultProxy(f"{server.url}/base") as proxy:
        yield proxy


def get(proxy: FaultProxy, path: str = "/x", timeout: float = WAIT) -> requests.Response:
    return requests.get(proxy.url + path, timeout=timeout)


def test_what_meets_no_rule_arrives_as_it_was_sent(server: CannedServer, proxy: FaultProxy) -> None:
    answer = requests.put(f"{proxy.url}/a%2Fb?q=%20", data=b"sent", headers={"X-Mine": "1"}, timeout=WAIT)
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("PUT", "/base/a%2Fb?q=%20", b"sent")
    assert (request.headers["x-mine"], request.headers["host"]) == ("1", proxy.url.split("/")[2])
    assert (answer.status_code, answer.content, answer.headers["ETag"], answer.headers["X-Odd"]) == (
        *(200, BODY),
        *('"1"', "a: b"),
    )
    (seen,) = proxy.seen
    assert (seen.method, seen.path, seen.query, seen.status) == ("PUT", "/base/a/b", {"q": " "}, 200)


def test_an_answer_in_place_of_the_servers(server: CannedServer, proxy: FaultProxy) -> None:
    proxy.add(Rule(on(), Say(Answer(429, b"no", {"Retry-After": "7"})), nth(1)))
    proxy.add(Rule(on(), Say(Answer(500), applied=True), nth(2)))
    busy, broken = get(proxy), get(proxy)
    assert (busy.status_code, busy.content, busy.headers["Retry-After"]) == (429, b"no", "7")
    assert broken.status_code == 500
    assert [request.status for request in proxy.seen] == [429, 500]
    assert len(server.requests) == 1


@pytest.mark.parametrize(("fault", "carried_out"), [(Reset(), 0), (Lost(), 1)])
def test_a_reset_comes_before_or_after_the_server_is_asked(
    server: CannedServer, proxy: FaultProxy, fault: Reset | Lost, carried_out: int
) -> None:
    proxy.add(Rule(on(), fault))
    with pytest.raises(requests.ConnectionError, match="reset by peer"):
        get(proxy)
    assert len(server.requests) == carried_out
    assert proxy.seen[0].status is None


def test_a_body_is_cut_in_the_middle(proxy: FaultProxy) -> None:
    proxy.add(Rule(on(), Cut()))
    with requests.get(f"{proxy.url}/x", stream=True, timeout=WAIT) as answer:
        assert answer.headers["Content-Length"] == "100"
        with pytest.raises(requests.exceptions.ChunkedEncodingError, match="50 bytes read"):
            answer.content  # noqa: B018


def test_a_hanging_request_ends_with_the_clients_patience(server: CannedServer, proxy: FaultProxy) -> None:
    proxy.add(Rule(on(), Hang(), nth(1)))
    with pytest.raises(requests.ReadTimeout):
        get(proxy, timeout=0.2)
    assert get(proxy).status_code == 200
    assert len(server.requests) == 1


def test_a_held_request_arrives_once_released_though_its_client_is_gone(
    server: CannedServer, proxy: FaultProxy
) -> None:
    held = proxy.add(Rule(on(), Hold(), nth(1)))
    with pytest.raises(requests.ReadTimeout):
        get(proxy, "/late", timeout=0.2)
    assert held.met == 1
    assert server.requests == []
    proxy.release()
    wait_until(lambda: [request.path for request in server.requests] == ["/base/late"])


def test_a_slow_answer_comes_in_pieces_and_whole(proxy: FaultProxy) -> None:
    proxy.add(Rule(on(), Slow(0.02, pieces=4)))
    assert get(proxy).content == BODY


def test_rules_choose_by_method_path_query_body_and_number(proxy: FaultProxy) -> None:
    rule = proxy.add(Rule(on("POST", "/y", query="list", body='"pending"'), Say(Answer(418)), from_on(2)))

    def post(path: str, document: object) -> int:
        return requests.post(proxy.url + path, json=document, timeout=WAIT).status_code

    wanted = {"state": "pending"}
    assert post("/y?list-type=2", wanted) == 200, "the first"
    assert [post("/z?list", wanted), post("/y", wanted), post("/y?list", {})] == [200] * 3, "others"
    assert get(proxy, "/y?list").status_code == 200
    assert [post("/y?list", wanted), post("/y?list", wanted)] == [418, 418]
    assert (rule.matched, rule.met) == (3, 2)
    assert proxy.count(on("POST", "/y")) == 5
    assert json.loads(proxy.seen[-1].body) == wanted


def test_hooks_are_called_before_and_after_the_server_is_asked(server: CannedServer, proxy: FaultProxy) -> None:
    told: list[tuple[str, int]] = []

    def before(request: Request) -> None:
        told.append((f"before {request.path}", len(server.requests)))

    def after(_: Request, status: int) -> None:
        told.append((f"after {status}", len(server.requests)))

    proxy.add(Rule(on(), before=before, after=after))
    assert get(proxy).status_code == 200
    assert told == [("before /base/x", 0), ("after 200", 1)]
