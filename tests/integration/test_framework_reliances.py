"""Behaviour of quixstreams that the framework's lane relies on, tried with librdkafka's own mock broker."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams import Application
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError
from quixstreams.models.topics import TopicConfig, TopicManager
from quixstreams.sinks import BaseSink, SinkBackpressureError

from app.consumer.commits import mark_commits
from app.kafka.questions import own_offset
from tests.support.waiting import PATIENCE, TookTooLong, join, wait_until

_CONFIG = TopicConfig(1, 1, {"retention.ms": "1000", "retention.bytes": "-1", "cleanup.policy": "delete"})


class Admin:
    """The mock broker knows no such requests, and makes each topic that it is asked for."""

    def list_topics(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}

    def inspect_topics(self, names: list[str], timeout: float | None = None) -> dict[str, TopicConfig]:
        return dict.fromkeys(names, _CONFIG)


class Noting(BaseSink):
    def __init__(self, on_flush: Callable[[], None]) -> None:
        super().__init__(on_client_connect_success=lambda: None)
        self.on_flush = on_flush
        self.offsets: list[int] = []
        self.flushed_on: list[int] = []

    def add(self, value: Any, key: Any, timestamp: int, headers: Any, topic: str, partition: int, offset: int) -> None:
        self.offsets.append(offset)

    def flush(self) -> None:
        self.flushed_on.append(threading.get_ident())
        self.on_flush()


class Bench:
    """An application with three records to read. It commits once it has processed ``commit_every``, 0: never."""

    def __init__(self, folder: Path, commit_every: int = 0) -> None:
        self.broker = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        (found,) = self.broker.list_topics(timeout=60).brokers.values()
        self.address = f"{found.host}:{found.port}"
        self.processed: list[int] = []
        self.ticks: list[int] = []
        self.on_tick: Callable[[], None] = lambda: None
        self.sink = Noting(lambda: None)
        admin: Any = Admin()
        self.application = Application(
            broker_address=self.address,
            consumer_group="group",
            topic_manager=TopicManager(topic_admin=admin, consumer_group="group"),
            auto_offset_reset="earliest",
            commit_interval=3600.0,
            commit_every=commit_every,
            consumer_poll_timeout=0.05,
            state_dir=folder,
            loglevel=None,
            on_consumer_error=lambda *_: False,
            on_message_processed=lambda _topic, _partition, offset: self.processed.append(offset),
            consumer_extra_config={"statistics.interval.ms": 100, "stats_cb": self._counted, "log_level": 0},
        )
        dataframe = self.application.dataframe(self.application.topic("sensors"))
        mark_commits(dataframe.processing_context.consumer)
        dataframe[dataframe["v"] > 0].sink(self.sink)
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        for v in range(3):
            producer.produce("sensors", json.dumps({"v": v}).encode(), b"k", partition=0)
        wait_until(lambda: not producer.flush(1), "three records")
        self._deadline = time.monotonic() + PATIENCE

    def _counted(self, statistics: str) -> None:
        if time.monotonic() > self._deadline:
            raise TookTooLong("the run has not ended")  # an error of this callback ends it
        self.ticks.append(json.loads(statistics)["cgrp"]["rebalance_cnt"])
        self.on_tick()

    def committed(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "group", "log_level": 0})
        (found,) = consumer.committed([KafkaTopicPartition("sensors", 0)], timeout=60)
        consumer.close()
        assert found.offset < 0 or found.metadata == own_offset("sensors", 0, found.offset).metadata
        return int(found.offset)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, commit_every=3)


def test_without_seconds_it_goes_back_at_once_and_commits_what_a_flush_has_taken(bench: Bench) -> None:
    refused: list[int] = []
    rebalances: set[int] = set()

    def flush() -> None:
        assert bench.committed() < 0  # a sink is flushed before offsets are committed
        if not refused:
            refused.extend(bench.sink.offsets)
            raise SinkBackpressureError(retry_after=0)

    def tick() -> None:
        if len(bench.sink.flushed_on) == 2 and not rebalances:
            rebalances.update(bench.ticks)  # the end of the application is one more
            bench.application.stop()

    bench.sink.on_flush = flush
    bench.on_tick = tick
    bench.application.run()
    assert refused == [1, 2]
    assert bench.sink.offsets == [*refused, 1, 2]
    assert bench.processed == [0, 1, 2] * 2  # those without a row too
    assert bench.committed() == 3
    assert rebalances == {0, 1}


def test_an_error_of_the_statistics_callback_ends_the_run(bench: Bench) -> None:
    def tick() -> None:
        raise RuntimeError("due")

    bench.on_tick = tick
    with pytest.raises(RuntimeError, match="due"):
        bench.application.run()


def test_a_revocation_flushes_on_another_thread(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    here, ended = threading.get_ident(), threading.Event()

    def join_the_group() -> None:
        with closing(Consumer({"bootstrap.servers": bench.address, "group.id": "group", "log_level": 0})) as other:
            wait_until(lambda: bench.processed or ended.is_set(), "the first record")
            other.subscribe(["sensors"])
            while not ended.is_set():
                other.poll(0.01)

    def tick() -> None:
        if set(bench.sink.flushed_on) - {here}:
            bench.application.stop()

    bench.on_tick = tick
    joining = threading.Thread(target=join_the_group)
    joining.start()
    try:
        # Unlike a real broker, this one takes no commit in a rebalance. Statistics right after it replace the error.
        with suppress(CheckpointConsumerCommitError, SystemError):
            bench.application.run()
    finally:
        ended.set()
        join(joining)
    assert set(bench.sink.flushed_on) - {here}
