"""What hangs on the dataframe beside the lake, on a real Kafka: it gets every record, and the table loses none."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.sinks import BatchingSink, SinkBackpressureError

from app.errors import ConfigError, RetryableError
from dev.broker import QUIET
from tests.fakes.moody_store import MoodyStore
from tests.faults.connector_thread import FAST, Place, answered

two_partitions = pytest.mark.parametrize("place", [2], indirect=True)


class Second(BatchingSink):
    """Keeps the numbers of what it was given to write."""

    def __init__(self, before_write: Callable[[], object] = lambda: None, **callbacks: Any) -> None:
        super().__init__(**callbacks)
        self.numbers: list[int] = []
        self.before_write = before_write

    def write(self, batch: Any) -> None:
        self.before_write()
        self.numbers += [item.value["n"] for item in batch]


def _with(sink: Second) -> Callable[[StreamingDataFrame], StreamingDataFrame]:
    def transform(sdf: StreamingDataFrame) -> StreamingDataFrame:
        sdf.sink(sink)
        return sdf

    return transform


def _topics(place: Place, *more: str) -> set[str]:
    """The topics of the test, and of these names, whoever created them; others may use the same broker."""
    admin = AdminClient({"bootstrap.servers": place.kafka.bootstrap_servers, **QUIET})
    found = admin.list_topics(timeout=30).topics
    return {name for name in found if place.topic in name or place.group in name or name in more}


@two_partitions
def test_a_branch_to_a_topic_and_a_second_sink_get_every_record(place: Place) -> None:
    alerts = f"alerts-{place.topic}"
    place.kafka.create_topic(alerts, 1)
    second = Second()

    def transform(sdf: StreamingDataFrame, app: Application) -> StreamingDataFrame:
        sdf[sdf["n"] % 2 == 0].to_topic(app.topic(alerts))
        sdf.sink(second)
        return sdf

    connector = place.connector(transform=transform)
    place.produce(200)
    place.finish(connector, 100, 100)
    place.assert_whole()
    assert sorted(second.numbers) == list(range(200))
    assert place.kafka.count(alerts) == 100


def test_a_second_sink_that_asks_for_a_pause_loses_and_doubles_nothing_of_the_table(place: Place) -> None:
    """What it puts off is not committed, so that no journal may tell of it as done."""
    is_busy, asked = True, 0

    def refuse() -> None:
        nonlocal asked
        if is_busy:
            asked += 1
            raise SinkBackpressureError(retry_after=0)

    sink = Second(refuse)
    lazy = {"BATCH_SIZE": "1000000", "COMMIT_INTERVAL": "0.5"}  # rows wait for the checkpoint, which that sink refuses
    first = place.connector(lazy, transform=_with(sink))
    place.produce(100)
    first.wait_until(lambda: asked == 3, "back-pressure")
    first.crash()
    assert sink.numbers == []

    is_busy = False
    second = place.connector(lazy, transform=_with(sink))
    place.produce(50)
    place.finish(second, 150)
    place.assert_whole()
    assert set(sink.numbers) == set(range(150))


# --- topics ---------------------------------------------------------------------------------------------------------


def _counting(sdf: StreamingDataFrame) -> StreamingDataFrame:
    return sdf.apply(lambda value, state: value, stateful=True)  # noqa: ARG005 - it is the framework that calls it


@pytest.mark.parametrize("place", [3], indirect=True)
def test_topics_of_state_and_group_by_are_created_as_the_input_and_no_others(place: Place) -> None:
    connector = place.connector(transform=lambda sdf: _counting(sdf.group_by("pad", name="by-pad")))
    connector.wait_until_consuming()
    connector.stop()

    group, topic = place.group, place.topic
    repartition = f"repartition__{group}--{topic}--by-pad"
    changelog = f"changelog__{group}--repartition.{topic}.by-pad--default"
    assert _topics(place) == {topic, repartition, changelog}
    admin = AdminClient({"bootstrap.servers": place.kafka.bootstrap_servers, **QUIET})
    listed = admin.list_topics(timeout=30).topics
    assert [len(listed[name].partitions) for name in (repartition, changelog)] == [3, 3]
    [described] = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, changelog)]).values()
    assert answered(described)["cleanup.policy"].value == "compact"


def test_a_changelog_with_other_partitions_than_the_input_is_told(place: Place) -> None:
    place.kafka.create_topic(f"changelog__{place.group}--{place.topic}--default", 2)
    error = place.connector(transform=_counting).wait()
    assert isinstance(error, ConfigError)
    assert "expected 1, got 2" in str(error)


_HASTY = replace(FAST, flush_seconds=1.0)  # a flush that takes too long ends a connector that joins topics


def _joined(place: Place, each: Callable[[Any], Any] = lambda value: value) -> Callable[..., StreamingDataFrame]:
    """Joins the place's topic to another one, which has one record for all time; ``each`` is called with every row."""
    others = f"others-{place.topic}"
    place.kafka.create_topic(others, place.partitions)
    place.kafka.produce(others, [("key", json.dumps({"room": "kitchen"}), 1_000, 0)])

    def transform(sdf: StreamingDataFrame, app: Application) -> StreamingDataFrame:
        return sdf.join_asof(app.dataframe(app.topic(others, key_deserializer="str")), how="left").apply(each)

    return transform


@two_partitions
def test_a_join_loses_nothing_that_was_fetched_while_its_store_was_away(place: Place) -> None:
    """quixstreams has fetched records of a partition of which it has processed none, and would pass over them.

    It does not remember either that it has read the other topic to its end, and would wait for its next record.
    """
    store = MoodyStore(place.store_folder)
    store.refuse = lambda _: RetryableError("uploading to the lake", "no route to host")
    never = threading.Event()
    slow = _joined(place, lambda value: (never.wait(0.01), value)[1])
    place.produce(200)
    error = place.connector(transform=slow, store=store, timings=_HASTY).wait()
    assert isinstance(error, RetryableError)

    second = place.connector(transform=slow)
    place.produce(2)
    place.finish(second, 101, 101)
    place.assert_whole()
