"""What the monitor finds out by itself: whether Kafka answers; and what is served."""

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
import requests

from app.errors import RetryableError
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.monitor import Ends, Monitor
from app.monitoring.status import Health, Live
from app.timings import Timings
from dev.server import free_ports
from tests.fakes.clock import Clock
from tests.support.environment import load

TP = TopicPartition("sensors", 0)
AWAY = RetryableError("asking Kafka for the ends of the partitions", "no answer within 10 s").of("Kafka")


class Bench:
    """A monitor whose thread does not run."""

    def __init__(self, *, has_tables: bool = False) -> None:
        self.clock = Clock()
        self.metrics = Metrics(self.clock, Timings(clock=self.clock))
        self.metrics.begins(TP, 0)
        self.live = Live("consuming")
        settings = load(input="a,b" if has_tables else "sensors")
        health = Health(loop_seconds=60.0, clock=time.monotonic)
        self.monitor = Monitor(settings, self.metrics, health, self.look, self.clock)

    def look(self) -> Live:
        return replace(self.live, waits=self.metrics.waits.current())


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="module")
def served() -> int:
    [port] = free_ports(1)
    Bench().monitor.serve("127.0.0.1", port, ["lake.example"])
    return port


def answers(ends: Mapping[TopicPartition, int]) -> Ends:
    return lambda _: ends


def fails(error: Exception) -> Ends:
    def ends(_: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        raise error

    return ends


def test_kafka_is_away_until_it_answers(bench: Bench) -> None:
    bench.clock.advance(50)
    assert not bench.monitor._query_ends(fails(AWAY))
    [trouble] = bench.metrics.waits.current()
    assert trouble.seconds >= 50, "since its last answer"
    assert bench.monitor._query_ends(answers({TP: 7}))
    assert bench.metrics.waits.current() == ()
    assert bench.metrics.counts().lag == 7


def test_a_fault_of_our_own_does_not_blame_kafka(bench: Bench) -> None:
    assert not bench.monitor._query_ends(fails(ValueError("a bug")))
    assert bench.metrics.waits.current() == ()


@pytest.mark.parametrize(
    ("path", "code", "kind"),
    [
        ("/", 200, "text/html; charset=utf-8"),
        ("/partitions", 200, "text/html; charset=utf-8"),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8"),
        ("/health/live", 200, "application/json"),
        ("/health/ready", 503, "application/json"),
    ],
)
def test_what_is_served(served: int, path: str, code: int, kind: str) -> None:
    answer = requests.get(f"http://127.0.0.1:{served}{path}", timeout=20)
    assert (answer.status_code, answer.headers["Content-Type"]) == (code, kind)
    assert ("style-src 'sha256-" in answer.headers.get("Content-Security-Policy", "")) == kind.startswith("text/html")
    stranger = requests.get(f"http://127.0.0.1:{served}{path}", headers={"Host": "evil.example"}, timeout=20)
    assert stranger.status_code == (code if path.startswith("/health") else 421)


def test_probes_and_metrics_are_served_without_a_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.monitoring.monitor.CONSOLES", ())
    [port] = free_ports(1)
    Bench().monitor.serve("127.0.0.1", port, [])
    answers = {path: requests.get(f"http://127.0.0.1:{port}{path}", timeout=20) for path in ("/", "/metrics")}
    assert answers["/metrics"].status_code == 200
    assert answers["/"].text == "there are /metrics, /health/live, /health/ready\n"
