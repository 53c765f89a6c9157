"""The probes over real HTTP, as a platform asks them."""

import json
import socket
from http.client import HTTPConnection
from typing import Any

import pytest

from app.errors import ConfigError
from app.health import Health, HealthServer, Probe
from dev.server import free_ports
from tests.fakes.clock import Clock

LOOP_SECONDS = 235.0


class Served:
    """A health server on a port of its own, for a loop whose turns and Spark a test plays."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.health = Health(loop_seconds=LOOP_SECONDS, clock=self.clock)
        self.spark_alive = True
        self.readiness = Probe(ok=True, detail="consuming")
        [self.port] = free_ports(1)
        HealthServer(self.health, self.port)

    def started(self) -> None:
        self.health.started(spark_alive=lambda: self.spark_alive, ready=lambda: self.readiness)

    def ask(self, path: str, method: str = "GET") -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            assert answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def served() -> Served:
    return Served()


# --- live -----------------------------------------------------------------------------------------------------------


def test_a_process_that_starts_is_live_however_long_it_takes(served: Served) -> None:
    served.clock.advance(10_000)
    assert served.ask("/health/live") == (200, {"ok": True, "detail": "starting"})


def test_a_loop_that_turns_is_live(served: Served) -> None:
    served.started()
    for _ in range(10):
        served.clock.advance(LOOP_SECONDS)
        served.health.turn()
    assert served.ask("/health/live") == (200, {"ok": True, "detail": "running"})


def test_a_loop_that_hangs_is_not_live(served: Served) -> None:
    served.started()
    served.clock.advance(LOOP_SECONDS)
    assert served.ask("/health/live")[0] == 200
    served.clock.advance(1)
    assert served.ask("/health/live") == (
        503,
        {"ok": False, "detail": "the consumer's loop has not turned for 236 s"},
    )


def test_a_loop_that_turns_again_is_live_again(served: Served) -> None:
    served.started()
    served.clock.advance(2 * LOOP_SECONDS)
    assert served.ask("/health/live")[0] == 503
    served.health.turn()
    assert served.ask("/health/live")[0] == 200


def test_without_its_java_process_it_is_not_live(served: Served) -> None:
    served.started()
    served.spark_alive = False
    assert served.ask("/health/live") == (503, {"ok": False, "detail": "Spark's Java process is gone"})


# --- ready ----------------------------------------------------------------------------------------------------------


def test_a_process_that_starts_is_not_ready(served: Served) -> None:
    assert served.ask("/health/ready") == (503, {"ok": False, "detail": "starting"})


@pytest.mark.parametrize(
    ("readiness", "status"),
    [(Probe(ok=True, detail="consuming"), 200), (Probe(ok=False, detail="no partitions assigned yet"), 503)],
)
def test_readiness_is_told_as_it_is(served: Served, readiness: Probe, status: int) -> None:
    served.started()
    served.readiness = readiness
    assert served.ask("/health/ready") == (status, {"ok": readiness.ok, "detail": readiness.detail})


# --- the server -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/health", "/health/live/", "/metrics"])
def test_other_paths_say_which_there_are(served: Served, path: str) -> None:
    status, body = served.ask(path)
    assert status == 404
    assert body["detail"] == "there are /health/live, /health/ready"


def test_probes_are_answered_side_by_side(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)):  # a client that says nothing
        assert served.ask("/health/live")[0] == 200


def test_a_port_that_is_taken_is_a_mistake_in_the_settings(served: Served) -> None:
    with pytest.raises(ConfigError) as caught:
        HealthServer(served.health, served.port)
    assert str(caught.value) == (
        f"opening HTTP_PORT={served.port}: Address already in use. Choose another port, or 0 for none"
    )
