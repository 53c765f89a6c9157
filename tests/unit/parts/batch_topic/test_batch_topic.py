"""Which events go to the topic, with a Kafka that is played; the real one is in ``tests/e2e/test_batch_topic.py``."""

import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from app.journal.log import AssignmentLog, Progress
from app.model import DataFile, TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.status import Consumption
from app.parts.batch_topic import batch_topic
from app.parts.batch_topic.batch_topic import BatchTopic
from tests.fakes.clock import Clock
from tests.support.environment import load

P0, P1 = TopicPartition("readings", 0), TopicPartition("readings", 1)
FULL = BufferError("Local: Queue full")
GONE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


class Producer:
    def __init__(self, *_: object, **__: object) -> None:
        self.sent: list[dict[str, Any]] = []
        self.answers: list[Callable[[KafkaError | None, object], None]] = []
        self.refusal: Exception | None = None

    def produce(self, topic: str, value: str, key: str, buffer_error_max_tries: int, on_delivery: Any) -> None:
        assert (topic, key, buffer_error_max_tries) == ("batches", "t", 0)
        if self.refusal:
            raise self.refusal
        self.sent.append(json.loads(value))
        self.answers.append(on_delivery)

    def poll(self, _: float) -> None: ...


class Run:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.producer, self.metrics = Producer(), Metrics(Clock())
        monkeypatch.setattr(batch_topic, "Producer", lambda *_, **__: self.producer)
        monkeypatch.setattr(batch_topic, "open_topic", lambda *_: SimpleNamespace(name="batches"))
        runtime = SimpleNamespace(metrics=self.metrics)
        connector: Any = SimpleNamespace(
            settings=load(TABLE_NAME="t", BATCH_TOPIC="batches"), runtime=runtime, visible_topics=lambda _: ["batches"]
        )
        application = SimpleNamespace(config=SimpleNamespace(broker_address=None, producer_extra_config={}))
        lane: Any = SimpleNamespace(application=application, consumption=lambda: Consumption(oldest={P0: 1.0, P1: 9.0}))
        self.topic = BatchTopic(connector, lane)

    def announces(self, state: Any, *partitions: Progress, batch: int = 0, files: int = 0) -> None:
        listed = tuple(DataFile(f"data/t/{n}.parquet", {"day": "1"}, rows=2, size=3) for n in range(files))
        log = AssignmentLog(seq=1, owner="a", writer="a", state=state, batch=batch, partitions=partitions, files=listed)
        self.topic._announce("", log)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def progress(tp: TopicPartition, end: int, to: int | None = None) -> Progress:
    return Progress(topic=tp.topic, partition=tp.partition, end=end, to=to)


def ranges(event: dict[str, Any]) -> list[tuple[int, int | None, int]]:
    return [(each["partition"], each["from"], each["to"]) for each in event["partitions"]]


def test_events_follow_one_another_from_the_claim_on(run: Run) -> None:
    run.metrics.begins(P0, 10)
    run.metrics.begins(P1, 0)
    run.topic._turn()
    run.announces("done", progress(P0, 9), progress(P1, -1))
    run.announces("pending", progress(P0, 12, to=19), progress(P1, -1), batch=1, files=2)  # 10 to 12: no row
    run.announces("pending", progress(P0, 19, to=29), progress(P1, -1, to=4), batch=2)
    claim, first, second = run.producer.sent
    assert (ranges(claim), claim["batch"], claim["files"]) == ([(0, None, 9), (1, None, -1)], None, None)
    assert (ranges(first), first["batch"], first["files_left_out"]) == ([(0, 10, 19)], "a-1", 0)
    assert first["files"][1] == {"key": "data/t/1.parquet", "rows": 2, "bytes": 3, "partition_values": {"day": "1"}}
    assert (ranges(second), second["files"]) == ([(0, 20, 29), (1, 0, 4)], [])
    assert (first["table"], first["complete_to"]) == ("t", "1970-01-01T00:00:01+00:00")


def test_a_batch_of_a_former_owner_does_not_say_where_it_begins(run: Run) -> None:
    run.announces("kept", progress(P0, 19, to=19), progress(P1, 7), batch=5, files=1)
    (event,) = run.producer.sent
    assert (ranges(event), event["batch"], len(event["files"]), event["complete_to"]) == (
        [(0, None, 19)],
        "a-5",
        1,
        None,
    )


def test_events_without_room_or_refused_become_one_without_files(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.announces("pending", progress(P0, 9, to=19), batch=1, files=1)
    run.producer.refusal = FULL
    run.announces("pending", progress(P0, 19, to=29), batch=2, files=1)
    run.announces("pending", progress(P0, 29, to=39), progress(P1, 4, to=6), batch=3, files=1)
    run.producer.refusal = None
    run.producer.answers[0](GONE, None)  # the older event, later
    run.topic._turn()
    first, rest = run.producer.sent
    assert (ranges(first), ranges(rest), rest["files"]) == ([(0, 10, 19)], [(0, 10, 39), (1, 5, 6)], None)
    run.producer.answers[1](GONE, None)
    run.topic._turn()
    run.producer.answers[2](None, None)
    run.topic._turn()
    assert run.producer.sent[2:] == [rest]
    assert "Events are merged or left out" in caplog.text
    assert caplog.records[0].levelno == logging.WARNING


def test_what_is_too_large_loses_its_files_and_is_then_left_out(run: Run) -> None:
    run.announces("pending", progress(P0, 9, to=19), batch=1, files=1)
    for number in range(2):
        run.producer.answers[number](KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
        run.topic._turn()
    assert [each["files"] is None for each in run.producer.sent] == [False, True]


def test_an_event_stays_below_kafkas_limit(run: Run) -> None:
    tps = [TopicPartition("t" * 249, number) for number in range(2_500)]
    run.announces("pending", *(progress(tp, 9, to=10**12) for tp in tps), batch=1, files=8_000)
    assert [len(each["partitions"]) for each in run.producer.sent] == [1_000, 1_000, 500]
    assert {
        each["files_left_out"] > 0 and len(each["files"]) + each["files_left_out"] for each in run.producer.sent
    } == {8_000}
    assert max(len(json.dumps(each)) for each in run.producer.sent) < 1_000_000


def test_a_late_batch_of_a_former_assignment_has_its_own_offsets(run: Run) -> None:
    run.announces("done", progress(P0, 9))
    run.announces("done", progress(P0, 29))
    run.announces("pending", progress(P0, 9, to=19), batch=1)
    run.announces("pending", progress(P0, 29, to=39), batch=1)
    assert [ranges(each)[0] for each in run.producer.sent[2:]] == [(0, 10, 19), (0, 30, 39)]


def test_no_error_ends_a_batch_or_the_thread(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.producer.poll = None  # type: ignore[assignment,method-assign]
    run.topic._attempt(run.topic._turn)
    assert "Please report this as a bug" in caplog.text
    run.producer.refusal = ValueError("bad configuration")
    run.announces("pending", progress(P0, 9, to=19), batch=1)
