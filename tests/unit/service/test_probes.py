"""The state that the probes, the metrics and the status page show, from the parts of a running connector."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.config.settings import Settings
from app.errors import ConnectorError, FatalError, RetryableError
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.status import Consumption, Health, Live, Probe, StateName, Suspended
from app.parts.console.console import Console
from app.retries import Request, Trouble
from app.service.probes import live, new_monitor
from app.timings import Timings
from tests.fakes.clock import Clock
from tests.support.batches import TP, UNBOUNDED
from tests.support.environment import BROKER_ALONE, load

OTHER = TopicPartition("readings", 1)


class Connector:
    def __init__(self) -> None:
        self.clock = Clock()
        self.now = 1_000.0
        self.metrics = Metrics(lambda: self.now, Timings(clock=self.clock))
        self.java: Any = SimpleNamespace(alive=True, is_up=True, jvm_pid=lambda: 17)
        self.consumption = Consumption(assigned=2, tps=[TP, OTHER], due_in=3.0)
        self.members = SimpleNamespace(failure=None, buffer=SimpleNamespace(under_way=0))
        self.health = Health(loop_seconds=60.0, clock=self.clock)
        parts: Any = SimpleNamespace(
            runtime=SimpleNamespace(metrics=self.metrics),
            records=SimpleNamespace(bad=SimpleNamespace(skipped=0), limits=UNBOUNDED),
            monitor=SimpleNamespace(health=self.health),
            spark=self.java,
        )
        lane: Any = SimpleNamespace(members=self.members, consumption=lambda: self.consumption)
        self._parts = parts, lane

    def change(self, **what: Any) -> None:
        self.consumption = replace(self.consumption, **what)

    def look(self) -> Live:
        return live(*self._parts)

    @property
    def state(self) -> StateName:
        return self.look().state


@pytest.fixture
def connector() -> Connector:
    return Connector()


def test_a_flush_that_did_not_go_through_is_waited_for(connector: Connector) -> None:
    connector.change(is_held_up=True)
    live = connector.look()
    assert (live.state, live.ready) == ("waiting", Probe(ok=False, detail="the last flush failed"))

    connector.change(is_held_up=False)
    assert connector.state == "consuming"


def test_what_is_waited_for_is_named(connector: Connector) -> None:
    connector.metrics.waits.failed(RetryableError("asking Kafka", "no answer").of("Kafka"))
    live = connector.look()
    assert (live.state, live.ready.ok) == ("waiting", True), "it is no outage yet"
    assert [trouble.system for trouble in live.waits] == ["Kafka"]
    connector.metrics.waits.over()
    assert connector.state == "consuming"


@pytest.mark.parametrize("partitions", [{"fenced": {TP: "taken over"}}, {"unclaimed": frozenset({TP})}])
def test_partitions_of_another_member_and_those_that_are_being_claimed(
    connector: Connector, partitions: dict[str, Any]
) -> None:
    connector.change(**partitions)
    live = connector.look()
    assert live.state == "waiting"
    assert live.consumption is connector.consumption


@pytest.mark.parametrize(
    ("error", "code"), [(FatalError("uploading x", "access denied").of("store"), 1), (RetryableError("x", "y"), 75)]
)
def test_a_failure_says_with_which_code_the_process_ends(
    connector: Connector, error: ConnectorError, code: int
) -> None:
    connector.members.failure = error
    live = connector.look()
    assert live.state == "failing"
    assert live.failure is not None
    assert (live.failure.exit_code, live.failure.system) == (code, error.system)


def test_java_that_is_gone(connector: Connector) -> None:
    connector.health.started(lambda: connector.java.alive)
    connector.java.alive = False
    live = connector.look()
    assert (live.state, live.spark) == ("failing", "gone")
    assert live.failure is not None
    assert (live.failure.system, live.failure.exit_code) == ("Spark", 70)


def test_a_stop_comes_before_all_else(connector: Connector) -> None:
    connector.members.failure = FatalError("uploading x", "access denied")
    connector.change(is_stopping=True)
    assert connector.state == "stopping"


def test_it_is_not_ready_where_another_program_keeps_partitions_of_the_group(connector: Connector) -> None:
    connector.metrics.members(1, ["old-sink at /10.0.0.7"])
    assert connector.look().ready.ok, "a rebalance may end it"
    connector.now += 20
    live = connector.look()
    assert (live.ready.ok, live.state) == (False, "consuming"), "it consumes its own partitions"
    assert live.ready.detail == "another program has partitions in the consumer group: old-sink at /10.0.0.7"
    connector.metrics.members(1)
    assert connector.look().ready.ok


def test_it_is_ready_while_other_tables_than_those_suspended_are_read(connector: Connector) -> None:
    suspended = Suspended(Trouble("store", "opening the table", "denied"), 0.0, 60.0, 1)
    connector.change(tps=[TP, TopicPartition("other", 0)], suspended={TP.topic: suspended})
    live = connector.look()
    assert (live.state, live.ready.ok) == ("consuming", True)
    connector.change(suspended={TP.topic: suspended, "other": suspended})
    live = connector.look()
    assert (live.state, live.ready.ok) == ("waiting", False)
    assert live.ready.detail == "all tables are suspended: opening the table: denied"


# --- what the monitor knows from the settings -----------------------------------------------------------------------


def settings(tmp_path: Path, **variables: str) -> Settings:
    return load(BROKER_ALONE, input="readings", STORAGE_URL=f"file://{tmp_path}/lake", **variables)


def test_the_page_has_the_settings_of_the_log_and_no_secret(tmp_path: Path) -> None:
    secret = {"CATALOG_URL": "http://catalog.example.com", "CATALOG_AUTH_TOKEN": "c0ffee-t0ken"}
    java: Any = SimpleNamespace(alive=True, is_up=False, jvm_pid=lambda: None)
    monitor = new_monitor(settings(tmp_path, **secret), Metrics(), Health(loop_seconds=1.0, clock=lambda: 0.0), java)
    [console] = monitor.consoles
    assert isinstance(console, Console)
    page = bytes(console.page().body).decode()
    assert "<dt>CATALOG_URL</dt><dd>&#34;http://catalog.example.com&#34;</dd>" in page
    assert "c0ffee" not in page
    assert f"file://{tmp_path}/lake/data/readings" in page


@pytest.mark.parametrize(("seconds", "is_ready"), [(15, True), (25, False)])
def test_the_connector_is_not_ready_while_an_answer_takes_too_long(
    connector: Connector, seconds: int, *, is_ready: bool
) -> None:
    with connector.metrics.waits.answer(Request("store", "writing the journal")):
        connector.clock.advance(seconds)
        assert connector.look().ready.ok == is_ready
    assert connector.look().ready.ok
