"""A peer of the benchmark that fails has no figures and a reason, and a failure of ours is no result."""

from dataclasses import replace

import pytest

from bench import laps
from bench.laps import Field
from bench.messages import Workload, expected_totals
from bench.run import Run
from bench.sinks.base import Sink
from bench.sinks.connector import ConnectorSink
from bench.stage import Stage, Topic
from bench.totals import WrongRowsError
from dev.machine import ServiceError

RUN = Run(
    messages=100,
    cold_seconds=1.0,
    first_seconds=0.5,
    warm_rate=None,
    cpu_seconds=1.0,
    java_cpu_seconds=0.0,
    warm_cpu_seconds=None,
    peak_mb=100.0,
    files=1,
    size=1_000,
)


class _Stage(Stage):
    """Topics without a Kafka: nothing here reads them."""

    def __init__(self) -> None:
        pass

    def topic(self, workload: Workload) -> Topic:
        return Topic(workload.name, workload, expected_totals(workload))


class _CannotBeHad(ConnectorSink):
    def prepare(self) -> dict[str, str]:
        raise ServiceError(f"{self.name} cannot be had")


def _sink(name: str, is_ours: bool = False) -> ConnectorSink:
    return ConnectorSink(name, name.title(), is_ours=is_ours)


def _run(field: Field, rounds: int = 3) -> laps.Lap:
    return field.run(_Stage(), Workload(100, 4), list(field.sinks), rounds)


def test_a_peer_that_cannot_be_had_is_out_with_the_reason_and_without_ours_there_is_no_benchmark() -> None:
    field = Field({"peer": _CannotBeHad("peer", "Peer", is_ours=False), "other": _sink("other")})

    field.prepare()

    assert list(field.sinks) == ["other"]
    assert field.not_run == {"peer": "peer cannot be had"}
    with pytest.raises(ServiceError, match="ours cannot be had"):
        Field({"ours": _CannotBeHad("ours", "Ours")}).prepare()


@pytest.mark.parametrize("error", [ServiceError("it hangs"), WrongRowsError("a row is missing")])
def test_a_peer_that_fails_in_a_later_round_has_no_figures_at_all(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    turns: list[str] = []

    def measure(sink: Sink, _stage: Stage, topic: Topic) -> Run:
        turns.append(sink.name)
        if turns.count("peer") == 2 and sink.name == "peer":
            raise error
        return replace(RUN, messages=topic.messages)

    monkeypatch.setattr(laps, "measure", measure)
    field = Field({"ours": _sink("ours", is_ours=True), "peer": _sink("peer")})

    lap = _run(field)

    assert turns == ["ours", "peer", "ours", "peer", "ours"]
    assert {name: len(runs) for name, runs in lap.runs.items()} == {"ours": 3}
    assert field.not_run == {"peer": str(error)}


def test_a_lost_row_of_ours_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(_sink: Sink, _stage: Stage, _topic: Topic) -> Run:
        raise WrongRowsError("a row is missing")

    monkeypatch.setattr(laps, "measure", measure)

    with pytest.raises(WrongRowsError, match="a row is missing"):
        _run(Field({"ours": _sink("ours", is_ours=True)}))
