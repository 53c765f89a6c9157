"""The proxy does what its faults say, else the tests that use it would prove nothing."""

from collections.abc import Iterator

import pytest
import requests

from tests.fakes.canned_server import Answer as Canned
from tests.fakes.canned_server import CannedServer
from tests.faults.proxy import Answer, Cut, Fault, FaultProxy, Hang, Lost, Reset, Rule, Say, on
from tests.support.waiting import PATIENCE

BODY = b"0123456789" * 10


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with CannedServer(Canned(200, BODY, {"ETag": '"1"', "X-Odd": "a: b"})) as server:
        yield server


@pytest.fixture
def proxy(server: CannedServer) -> Iterator[FaultProxy]:
    with FaultProxy(f"{server.url}/base") as proxy:
        yield proxy


def get(proxy: FaultProxy, timeout: float = PATIENCE) -> requests.Response:
    return requests.get(proxy.url, timeout=timeout)


@pytest.mark.parametrize("applied", [False, True])
def test_an_answer_in_place_of_the_servers(server: CannedServer, proxy: FaultProxy, *, applied: bool) -> None:
    proxy.add(Rule(on(), Say(Answer(429, b"no", {"Retry-After": "7"}), applied=applied)))
    answer = get(proxy)
    assert (answer.status_code, answer.content, answer.headers["Retry-After"]) == (429, b"no", "7")
    assert len(server.requests) == applied


@pytest.mark.parametrize(
    ("fault", "error", "carried_out"),
    [
        (Reset(), "reset by peer", 0),
        (Lost(), "reset by peer", 1),
        (Cut(), "50 bytes read", 1),
        (Hang(), "timed out", 0),
    ],
    ids=["reset", "lost", "cut", "hang"],
)
def test_no_whole_answer(server: CannedServer, proxy: FaultProxy, fault: Fault, error: str, carried_out: int) -> None:
    rule = proxy.add(Rule(on(), fault))
    with pytest.raises(requests.RequestException, match=error):
        get(proxy, timeout=0.2 if error == "timed out" else PATIENCE)
    assert (rule.met, len(server.requests)) == (1, carried_out)
