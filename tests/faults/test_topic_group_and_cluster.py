"""Whether topic, group and cluster are the ones we think, on a real Kafka: what changes is found out."""

import json
import multiprocessing
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.errors import ConfigError, RetryableError
from app.kafka.connection import KafkaConnection
from app.kafka.group import Writes, check_members
from app.kafka.questions import end_offsets
from app.kafka.topics import check_topic_rights, new_admin
from app.model import TopicPartition
from dev.kafka import LocalKafka
from tests.faults.conftest import same
from tests.faults.connector_thread import Place, Transform
from tests.services.groups import committed_offsets
from tests.support.waiting import PATIENCE, wait_until

LATEST = {"AUTO_OFFSET_RESET": "latest"}
two_partitions = pytest.mark.parametrize("place", [2], indirect=True)
# Whatever is read waits for the stop, or for what the test does.
LAZY = {"BATCH_SIZE": "1000000", "COMMIT_INTERVAL": "3600"}
# So that the client is away while the topic is recreated and refilled.
SLOW_AFTER_ERRORS = {"fetch.error.backoff.ms": 5_000}


def _add_partitions(place: Place, total: int) -> None:
    place.kafka.add_partitions(place.topic, total)
    place.partitions = total


class TestRecreatedAndRefilled:
    """Beyond the position, so that Kafka's client reads on in the new topic without an error."""

    def test_while_it_runs(self, place: Place) -> None:
        first = place.connector(LATEST, kafka=SLOW_AFTER_ERRORS)
        first.wait_until_consuming()
        place.produce(100)
        place.wait_until_committed(100, by=first)
        place.make_anew()
        place.produce(300)

        error = first.wait()

        assert isinstance(error, RetryableError)
        assert "the topic was recreated" in str(error)
        assert place.numbers() == list(range(100))
        second = place.connector(LATEST)
        place.finish(second, 300)
        assert place.numbers() == list(range(400))

    def test_what_was_read_before_and_is_not_written_is_not_taken_for_the_new_topic(self, place: Place) -> None:
        first = place.connector(LAZY, kafka=SLOW_AFTER_ERRORS)
        place.produce(100)
        first.wait_until(lambda: first.waiting_rows == 100, "rows that wait")
        place.make_anew()
        place.produce(300)
        first.wait_until(lambda: first.waiting_rows == 300, "rows of the new topic")

        error = first.end()

        assert isinstance(error, RetryableError)
        assert "either topic" in str(error)
        assert place.files() == []
        place.write(10, 310)
        place.assert_whole(range(100, 410))


def test_a_topic_recreated_between_two_runs_is_read_from_its_beginning_by_the_framework_too(place: Place) -> None:
    place.transform = same
    place.write(100, 100)
    place.make_anew()
    place.write(200, 200)  # the group's offset, 100, is amid them
    place.assert_whole()


class TestNewPartitions:
    def test_added_while_it_runs_are_read_from_their_first_record(self, place: Place) -> None:
        connector = place.connector(LATEST, kafka={"topic.metadata.refresh.interval.ms": 1_000})
        connector.wait_until_consuming()
        place.produce(10)
        _add_partitions(place, 3)
        place.produce(100, partition=1)

        connector.wait_until(lambda: place.numbers() == list(range(110)), "the records of the new partition")

        connector.stop()

    @pytest.mark.parametrize("place", [4], indirect=True)
    @pytest.mark.usefixtures("each_lane")
    def test_members_that_start_together_at_the_latest_take_no_partition_for_a_new_one(
        self, place: Place, caplog: pytest.LogCaptureFixture
    ) -> None:
        place.produce(100)
        members = [place.connector(LATEST) for _ in range(2)]
        members[0].wait_until(
            lambda: sorted(n for member in members for n in member.partitions) == [0, 1, 2, 3], "all partitions"
        )
        place.produce(20)

        members[0].wait_until(lambda: place.numbers() == list(range(100, 120)), "the records that came later")

        for member in members:
            member.stop()
        assert place.numbers() == list(range(100, 120))
        assert "100 existing records" in caplog.text


def test_another_program_in_the_group_is_found_out_and_nothing_doubled_before_the_user_says_what_to_do(
    place: Place,
) -> None:
    place.write(100, 100)
    place.produce(300)
    place.commit(400)

    error = place.connector().wait()

    assert isinstance(error, ConfigError)
    assert "offsets 100 to 399" in str(error)
    assert "change the value of FOLLOW_OFFSETS" in str(error)
    assert "set it back to 100, to write them" in str(error)
    place.assert_whole(range(100))
    place.write(10, 410, FOLLOW_OFFSETS="once")
    place.write(10, 420)
    place.assert_whole([*range(100), *range(400, 420)])


@two_partitions
@pytest.mark.parametrize("then", [None, same], ids=["plain", "framework"])
def test_of_the_offsets_behind_the_table_only_one_that_a_tool_has_set_is_followed(
    place: Place, then: Transform | None
) -> None:
    first = place.connector(transform=same)
    place.produce(200)
    first.crash_before_commit(lambda: [entry["end"] for entry in place.journals().values()] == [99, 99])
    assert place.committed() != [100, 100]
    place.commit(0, 90, first=1)
    place.transform = then

    place.write(20, 110, 110, FOLLOW_OFFSETS="once")

    again = list(range(181, 200, 2))
    place.assert_whole([*range(220), *again])
    place.commit(0, 110, first=1)  # where it is
    place.write(20, 120, 120, FOLLOW_OFFSETS="twice")
    place.assert_whole([*range(240), *again])


@two_partitions
def test_of_two_tables_started_together_neither_writes_a_part_of_the_topic(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2)

    def check_and_wait(*arguments: Any) -> None:
        check_members(*arguments)
        together.wait(PATIENCE)  # nobody has joined yet

    monkeypatch.setattr("app.service.connector.check_members", check_and_wait)
    names = ["readings", "other"]
    members = [place.connector(TABLE_NAME=name) for name in names]
    place.produce(100)

    wait_until(lambda: any(member.has_ended for member in members), "the end of one")
    ended = next(member for member in members if member.has_ended)
    assert isinstance(ended.error, RetryableError)
    assert "another table" in str(ended.error)

    def have_all_ended_or_written_all() -> bool:
        pairs = zip(members, names, strict=True)
        return all(member.has_ended or len(place.numbers(name)) == place.produced for member, name in pairs)

    wait_until(have_all_ended_or_written_all, "the end of the other, or all rows")
    assert sorted(len(place.numbers(name)) for name in names) in ([0, 0], [0, 100])


@pytest.fixture(scope="module")
def other_kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as broker:
        yield broker


@pytest.mark.night  # like all that need a second Kafka
def test_a_client_that_waits_for_a_dead_broker_pauses_between_two_tries(other_kafka: LocalKafka) -> None:
    tries = []

    def note(statistics: str) -> None:
        tries.append(sum(broker["connects"] for broker in json.loads(statistics)["brokers"].values()))

    other_kafka.create_topic("tried", 1)
    connection = KafkaConnection.to(other_kafka.bootstrap_servers, {})
    admin = new_admin(connection, **{"stats_cb": note, "statistics.interval.ms": 500})
    assert "tried" in admin.list_topics(timeout=30).topics
    other_kafka.stop()
    with pytest.raises(RetryableError):
        end_offsets(admin, [TopicPartition("tried", 0)])
    admin.poll(0)
    other_kafka.start()
    assert tries[-1] < 100


def _ask_as_a_start(servers: str, asked: Connection) -> None:
    admin = new_admin(KafkaConnection.to(servers, {}))
    check_topic_rights(admin, "readings")
    check_members(admin, "sink", Writes("", ""))
    asked.send(None)
    admin.list_topics(timeout=PATIENCE)  # Kafka is back, and late answers have come in


@pytest.mark.night
def test_answers_that_come_late_after_an_outage_do_not_end_a_process_that_has_started(other_kafka: LocalKafka) -> None:
    # The first question makes a new broker create the topic of committed offsets.
    committed_offsets(other_kafka, "sink", [KafkaTopicPartition("readings", 0)])
    processes = multiprocessing.get_context("spawn")
    told, asked = processes.Pipe(duplex=False)
    other_kafka.pause()
    asking = processes.Process(target=_ask_as_a_start, args=(other_kafka.bootstrap_servers, asked))
    asking.start()
    asked.close()
    wait_until(told.poll, "questions without an answer")
    other_kafka.resume()
    wait_until(lambda: not asking.is_alive(), "the end of the process")
    assert asking.exitcode == 0
