"""Several topics in one process, on a real Kafka: each into the table of its name, whatever becomes of the others."""

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from quixstreams import message_context

from app.errors import ConfigError, RetryableError
from app.storage.base import ObjectStore
from app.table.layout import schema_key
from tests.fakes.moody_store import MoodyStore
from tests.faults.conftest import same
from tests.faults.connector_thread import ConnectorThread, Place, answered
from tests.support.waiting import wait_until

LATEST = {"AUTO_OFFSET_RESET": "latest"}
SEES_TOPICS = {"topic.metadata.refresh.interval.ms": 500}
LAZY = {"BATCH_SIZE": "1000000", "COMMIT_INTERVAL": "3600"}
FIELDS = {"orders": "amount", "payments": "paid"}


class Topics:
    """Topics with the place's name before theirs, of two partitions each; records are numbered in each topic."""

    def __init__(self, place: Place, *names: str) -> None:
        self.place = place
        self.produced: dict[str, int] = {}
        for name in names:
            self.create(name)

    def create(self, name: str) -> None:
        self.place.kafka.create_topic(self.of(name), 2)
        self.produced[name] = 0

    def delete(self, name: str) -> None:
        admin = self.place._admin()
        answered(admin.delete_topics([self.of(name)])[self.of(name)])
        wait_until(lambda: self.of(name) not in admin.list_topics(timeout=30).topics, "the end of the topic")

    def of(self, name: str) -> str:
        return f"{self.place.topic}.{name}"

    def connector(
        self, *names: str, variables: Mapping[str, str] | None = None, store: ObjectStore | None = None
    ) -> ConnectorThread:
        """One that reads these, or all whose names begin with the place's."""
        read = ",".join(map(self.of, names)) or f"^{self.place.topic}[.].*"
        given = {"input": read, "TABLE_NAME": "", **(variables or {})}
        return self.place.connector(given, kafka=SEES_TOPICS, store=store)

    def produce(self, name: str, count: int, field: str = "") -> None:
        first, self.produced[name] = self.produced[name], self.produced[name] + count
        field = field or FIELDS.get(name, "other")
        records = ((b"key", json.dumps({"n": n, field: n}), None, n % 2) for n in range(first, first + count))
        self.place.kafka.produce(self.of(name), records)

    def write(self, connector: ConnectorThread, **counts: int) -> None:
        """Produce so many records into each, and wait until they are in the tables of these topics."""
        for name, count in counts.items():
            self.produce(name, count)
        connector.wait_until(lambda: self.are_whole(*counts), f"the records of {', '.join(counts)}")

    def are_whole(self, *names: str) -> bool:
        """Whether each record that was produced is in the table of its topic."""
        return all(len(self.place.numbers(self.of(name))) >= self.produced[name] for name in names or self.produced)

    def assert_whole(self, *names: str) -> None:
        for name in names or self.produced:
            self.place.assert_whole(range(self.produced[name]), self.of(name))


def wait_until_consuming(connector: ConnectorThread, partitions: int) -> None:
    def claimed() -> int:
        now = connector._now if connector.lane else None
        return len(set(now.tps) - now.unclaimed) if now else 0

    connector.wait_until(lambda: claimed() == partitions, f"{partitions} partitions")


def test_each_topic_goes_into_the_table_of_its_name_and_on_from_there_with_one_topic_and_back(place: Place) -> None:
    topics = Topics(place, "orders", "payments")
    first = topics.connector("orders", "payments")
    topics.write(first, orders=100, payments=50)
    first.stop()
    topics.assert_whole()

    alone = place.connector(input=topics.of("orders"), TABLE_NAME="")
    topics.write(alone, orders=20)
    alone.stop()
    again = topics.connector()
    topics.write(again, payments=20)
    again.stop()

    topics.assert_whole()


class TestTopicsThatComeAndGo:
    def test_a_topic_that_appears_later_is_read_from_its_first_record(self, place: Place) -> None:
        topics = Topics(place, "orders")
        topics.produce("orders", 30)
        first = topics.connector(variables=LATEST)
        wait_until_consuming(first, 2)
        topics.create("payments")
        topics.write(first, payments=40)
        first.stop()
        topics.create("late")
        topics.produce("late", 50)  # while no member is there
        second = topics.connector(variables=LATEST)
        second.wait_until(lambda: topics.are_whole("late"), "the topic that came between two runs")
        second.stop()
        topics.assert_whole("payments", "late")
        assert place.numbers(topics.of("orders")) == []

    def test_a_topic_that_is_deleted_leaves_the_others_alone(
        self, place: Place, caplog: pytest.LogCaptureFixture
    ) -> None:
        topics = Topics(place, "orders", "payments")
        connector = topics.connector()
        topics.write(connector, orders=100, payments=100)
        topics.delete("payments")
        topics.write(connector, orders=100)
        wait_until_consuming(connector, 2)
        topics.create("payments")
        topics.produce("payments", 30)
        connector.wait_until(lambda: len(place.numbers(topics.of("payments"))) == 130, "the topic that is made anew")
        topics.write(connector, orders=100)
        connector.stop()
        topics.assert_whole("orders")
        assert f"topic {topics.of('payments')} does not exist" in caplog.text


def test_a_topic_beyond_the_limit_of_tables_is_left_out_and_tables_that_exist_come_first(place: Place) -> None:
    topics = Topics(place, "orders")
    limited = {"TABLE_LIMIT": "1"}
    first = topics.connector(variables=limited)
    wait_until_consuming(first, 2)
    topics.create("flood")  # comes first by its name
    first.wait_until(lambda: topics.of("flood") in first._now.left_out, "that the page tells of the other")
    first.stop()
    second = topics.connector(variables=limited)
    topics.produce("orders", 10)
    topics.produce("flood", 10)
    second.wait_until(lambda: topics.are_whole("orders"), "the records")
    assert "TABLE_LIMIT=1" in second._now.left_out[topics.of("flood")]
    second.stop()
    job = topics.connector(variables={**limited, "UNTIL": "now"})
    assert "TABLE_LIMIT=1" in str(job.wait())
    assert place.numbers(topics.of("flood")) == []
    third = topics.connector(variables={"TABLE_LIMIT": "2"})
    third.wait_until(topics.are_whole, "the records of both")
    third.stop()
    topics.assert_whole()


def test_transform_gets_the_records_of_all_topics_and_can_tell_them_apart(place: Place) -> None:
    place.transform = lambda sdf: sdf.apply(lambda value: {**value, "of": message_context().topic})
    topics = Topics(place, "orders", "payments")
    connector = topics.connector()
    topics.write(connector, orders=100, payments=100)
    connector.stop()
    topics.assert_whole()
    for topic in map(topics.of, topics.produced):
        named = pa.concat_tables(pq.read_table(file, columns=["of"]) for file in place.files(topic))["of"]
        assert set(named.to_pylist()) == {topic}


class TestATableIsSuspended:
    def test_and_opened_again_while_others_go_on(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        topics = Topics(place, "orders", "payments")
        connector = topics.connector()
        topics.write(connector, orders=100, payments=100)
        schema = place.store_folder / schema_key(f"data/{topics.of('payments')}")
        before = schema.read_bytes()
        schema.write_text("{}")
        topics.produce("payments", 100, field="paid_twice")
        connector.wait_until(lambda: topics.of("payments") in connector._now.suspended, "its failure")
        topics.write(connector, orders=100)
        schema.write_bytes(before)
        connector.wait_until(topics.are_whole, "all records")
        topics.write(connector, payments=100)
        connector.stop()
        topics.assert_whole()

    def test_not_while_its_store_is_waited_for_and_the_others_go_on(self, place: Place) -> None:
        topics = Topics(place, "orders", "payments")
        store = MoodyStore(place.store_folder)
        connector = topics.connector(store=store)
        topics.write(connector, orders=10, payments=10)
        schema = schema_key(f"data/{topics.of('payments')}")
        away = RetryableError("writing the schema", "503")
        store.refuse_small = lambda key: away if key == schema else None
        topics.produce("payments", 10, field="new")
        connector.wait_until(lambda: connector._now.consumed == 30, "the record whose column waits")
        connector.wait_until(lambda: connector.is_waiting, "the wait")
        topics.produce("orders", 10, field="new")
        connector.wait_until(lambda: topics.are_whole("orders"), "the records of the other topic")
        assert not topics.are_whole("payments")
        store.refuse_small = lambda _: None
        connector.wait_until(topics.are_whole, "all records")
        connector.stop()
        topics.assert_whole()


class TestOneTable:
    def test_takes_all_topics_also_a_late_one_and_goes_on_without_a_deleted_one(self, place: Place) -> None:
        topics = Topics(place, "orders", "payments")
        connector = topics.connector(variables={"TABLE_NAME": "all", **LATEST})
        wait_until_consuming(connector, 4)
        topics.produce("orders", 100)
        topics.produce("payments", 50)
        topics.create("late")
        topics.produce("late", 30)
        connector.wait_until(lambda: len(place.numbers("all")) == 180, "all records")
        topics.delete("payments")
        topics.produce("orders", 20)
        connector.wait_until(lambda: len(place.numbers("all")) == 200, "the records of the other topics")
        connector.stop()
        second = topics.connector(variables={"TABLE_NAME": "all"})
        topics.produce("late", 10)
        second.wait_until(lambda: len(place.numbers("all")) == 210, "the records of the second run")
        second.stop()
        assert sorted(place.numbers("all")) == sorted([*range(120), *range(50), *range(40)])


def test_a_transform_that_needs_the_framework_is_refused(place: Place) -> None:
    topics = Topics(place, "orders", "payments")
    place.transform = same
    error = topics.connector().wait()
    assert isinstance(error, ConfigError)
    assert "Set input to one topic" in str(error)
