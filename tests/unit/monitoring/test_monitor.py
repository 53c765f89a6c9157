"""What the monitor finds out by itself: whether Kafka answers, and since when the state is what it is."""

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
import requests

from app.errors import RetryableError
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.monitor import Ends, Monitor
from app.monitoring.status import Health, Identity, Live
from app.timings import Timings
from dev.server import free_ports
from tests.fakes.clock import Clock

TP = TopicPartition("sensors", 0)
AWAY = RetryableError("asking Kafka for the ends of the partitions", "no answer within 10 s").of("Kafka")


class Bench:
    """A monitor whose thread does not run."""

    def __init__(self, *, has_tables: bool = False) -> None:
        self.clock = Clock()
        self.metrics = Metrics(self.clock, Timings(clock=self.clock))
        self.metrics.begins(TP, 0)
        self.end = 0
        self.live = Live("consuming")
        identity = Identity("sensors", "group", "s3://lake/data/t", "data/t", {}, 30.0, has_tables=has_tables)
        health = Health(loop_seconds=60.0, clock=time.monotonic)
        self.monitor = Monitor(identity, self.metrics, health, self.look, self.clock)

    def look(self) -> Live:
        return replace(self.live, waits=self.metrics.waits.current())

    def live_for(self, seconds: int, *, commits: bool) -> None:
        """Records come all the time. The monitor samples before each commit."""
        for _ in range(0, seconds, 5):
            self.clock.advance(5)
            self.end += 50
            self.metrics.reaches({TP: self.end})
            self.monitor.sample()
            if commits:
                self.metrics.committed({TP: self.end})

    @property
    def page(self) -> str:
        return bytes(self.monitor._page().body).decode()

    def shown(self, id: str) -> str:  # noqa: A002 - HTML's own name
        found = re.search(rf'id="{id}">(.*?)<', self.page)
        assert found
        return found[1]


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
    assert not bench.monitor._ask(fails(AWAY))
    [trouble] = bench.metrics.waits.current()
    assert trouble.seconds >= 50, "since its last answer"
    assert bench.shown("headline") == "Kafka is not available"
    assert bench.monitor._ask(answers({TP: 7}))
    assert bench.shown("headline").startswith("Running")
    assert bench.metrics.counts().lag == 7


def test_a_fault_of_our_own_does_not_blame_kafka(bench: Bench) -> None:
    assert not bench.monitor._ask(fails(ValueError("a bug")))
    assert bench.metrics.waits.current() == ()


def test_the_page_says_since_when_the_state_is_what_it_is(bench: Bench) -> None:
    bench.clock.advance(5)
    bench.monitor.sample()
    bench.clock.advance(125)
    assert bench.shown("since").startswith("for 2 min 5 s,")
    bench.live = Live("stopping")
    assert bench.shown("since").startswith("for 0 s,")


def test_a_lag_that_does_not_shrink_is_told_since_the_last_commit_of_all(bench: Bench) -> None:
    bench.live_for(60, commits=True)
    bench.live_for(120, commits=False)
    assert bench.shown("headline") == "Running, but the lag does not shrink"
    assert bench.shown("since").startswith("for 1 min 55 s,"), "the records that wait came 5 s after the last commit"
    bench.live_for(60, commits=False)
    assert bench.shown("since").startswith("for 2 min 55 s,")


def test_what_an_outage_left_behind_is_no_lag_that_does_not_shrink(bench: Bench) -> None:
    bench.live_for(60, commits=True)
    bench.metrics.waits.failed(RetryableError("uploading", "503").of("store"))
    bench.live_for(120, commits=False)
    assert bench.shown("headline") == "The store is not available"
    bench.metrics.waits.over()
    bench.live_for(5, commits=False)
    assert bench.shown("headline") == "Running: catching up"


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


def test_the_page_of_each_of_several_tables_is_served() -> None:
    [port] = free_ports(1)
    Bench(has_tables=True).monitor.serve("127.0.0.1", port, [])

    def answer(path: str) -> requests.Response:
        return requests.get(f"http://127.0.0.1:{port}/{path}", timeout=20)

    titles = re.findall(r"<h\d>(?:<a[^>]*>Quix TS Datalake Sink</a>: )?([^<]*)", answer("table-sensors").text)
    assert "sensors" in titles
    assert answer("table-gone").status_code == 404, "another replica may have it now"
