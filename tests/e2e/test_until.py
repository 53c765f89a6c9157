"""Runs that end (``UNTIL``): each takes the records up to its end once, and the next one goes on there."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dev.broker import Record
from dev.connector import customised
from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import mirror
from tests.e2e.records import records
from tests.e2e.scenario import Scenario, s3_store, tree_of
from tests.e2e.test_hostile_topic import produce_compressed
from tests.faults.proxy import FaultProxy, Rule, on
from tests.services.groups import leave_group

SECONDS = 30
FIRST = datetime(2026, 3, 1, tzinfo=UTC)


def in_transaction(scenario: Scenario, produced: Iterable[Record]) -> Producer:
    """Produce records that no reader gets before the producer that is returned commits."""
    producer = Producer({"bootstrap.servers": scenario.kafka.bootstrap_servers, "transactional.id": scenario.topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for _, value, at, partition in produced:
        producer.produce(scenario.topic, value, partition=partition or 0, timestamp=at or 0)  # 0: now
    producer.flush(SECONDS)
    return producer


def ended(members: Sequence[ConnectorProcess]) -> bool:
    return [member.wait() for member in members] == [0] * len(members)


@pytest.mark.parametrize("lane", ["plain", "framework"])
def test_members_end_together_where_the_topic_ended_and_the_next_run_goes_on(
    new_scenario: NewScenario, tmp_path: Path, lane: str
) -> None:
    """Though the end lies behind aborted records, and others come while the members run."""
    scenario = new_scenario(partitions=3)
    scenario.produce(records(3_000, partitions=2))  # the third partition is empty
    scenario.produce([("key", "no JSON", None, 1)])
    in_transaction(scenario, records(1_500)).abort_transaction(SECONDS)
    tree = tree_of(lane, tmp_path)

    members = [scenario.connector(root=tree, UNTIL="now") for _ in range(2)]
    for member in members:
        member.wait_for_log("this run ends before these offsets")
    scenario.produce(records(1_000, first=3_000, partitions=3))
    scenario.kafka.add_partitions(scenario.topic, 4)
    scenario.produce(("key", value, time, 3) for _, value, time, _ in records(100, first=4_000))
    assert ended(members)
    assert scenario.lake.numbers() == [*range(3_000)]

    assert ended([scenario.connector(root=tree, UNTIL="now")])
    assert scenario.lake.numbers() == [*range(4_100)]
    assert ended([scenario.connector(root=tree, UNTIL="now")])  # nothing is new
    assert scenario.lake.numbers() == [*range(4_100)]


@pytest.mark.parametrize("lane", ["plain", pytest.param("framework", marks=pytest.mark.night)])
def test_a_run_that_was_killed_is_ended_by_the_next_one(new_scenario: NewScenario, tmp_path: Path, lane: str) -> None:
    scenario = new_scenario(partitions=2)
    scenario.produce(records(2_000, partitions=2))
    tree = tree_of(lane, tmp_path)
    killed = scenario.connector(root=tree, UNTIL="now", LIGHT_DIE="before the log's last write:1")
    killed.wait_until(lambda: killed.exit_code is not None, "its death")
    leave_group(scenario.kafka.bootstrap_servers, scenario.group)
    scenario.produce(records(500, first=2_000, partitions=2))
    assert ended([scenario.connector(root=tree, UNTIL="now")])
    assert scenario.lake.numbers() == [*range(2_500)]


def test_a_run_waits_for_the_records_of_an_open_transaction(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=1)
    scenario.produce(records(10))
    producer = in_transaction(scenario, records(5, first=10))
    connector = scenario.connector(UNTIL="now")
    connector.wait_for_log(r"the transaction at offset 10 of .*\[0\] is open")
    producer.commit_transaction(SECONDS)
    assert ended([connector])
    assert scenario.lake.numbers() == [*range(15)]


def test_a_run_that_is_stopped_before_its_end_says_so_and_the_next_one_goes_on(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=1)
    scenario.produce(records(100))
    stopped = scenario.connector(UNTIL="now", COMMIT_INTERVAL="600", BATCH_SIZE="1000000")
    stopped.wait_for_log("claimed: ")
    assert stopped.stop() == 75
    assert ended([scenario.connector(UNTIL="now")])
    assert scenario.lake.numbers() == [*range(100)]


@pytest.mark.night
def test_a_run_takes_what_it_sends_to_itself(new_scenario: NewScenario, tmp_path: Path) -> None:
    """Through the topic of ``group_by()``, which has no end while the input is read."""
    scenario = new_scenario(partitions=2)
    scenario.produce(records(2_000, partitions=2))
    code = "def transform(sdf, app):\n    return sdf.group_by('location')\n"
    connector = scenario.connector(root=customised(tmp_path / "tree", code), UNTIL="now")
    connector.wait_for_log("this run ends before these offsets")
    scenario.produce(records(500, first=2_000, partitions=2))
    assert ended([connector])
    assert scenario.lake.numbers() == [*range(2_000)]


def with_times(count: int) -> Iterator[Record]:
    """A record a second, by turns in both partitions."""
    for n, (key, value, _, partition) in enumerate(records(count, partitions=2)):
        yield key, value, int(FIRST.timestamp() + n) * 1_000, partition


def test_the_end_is_reached_where_what_comes_before_it_takes_several_turns(
    new_scenario: NewScenario, tmp_path: Path
) -> None:
    """Though messages behind the end came with those before it."""
    scenario = new_scenario(partitions=2)
    scenario.produce(with_times(2_000))
    code = "import time\n\ndef slow(value):\n    time.sleep(0.01)\n    return value\n\n"
    tree = customised(tmp_path / "tree", f"{code}def transform(sdf):\n    return sdf.apply(slow)\n")
    assert ended([scenario.connector(root=tree, UNTIL="2026-03-01T00:08:20Z")])
    assert scenario.lake.numbers() == [*range(500)]


@pytest.mark.night
@pytest.mark.parametrize("lane", ["plain", "framework"])
def test_what_the_group_has_committed_is_no_end_until_its_claim_says_so(
    new_scenario: NewScenario, tmp_path: Path, s3_server: LocalMinio, bucket: str, lane: str
) -> None:
    """Of a time that is followed; the claim takes longer than a look at the end."""
    scenario = new_scenario(partitions=2)
    scenario.produce(with_times(1_000))
    tree = tree_of(lane, tmp_path)
    with FaultProxy(s3_server.endpoint_url) as proxy:
        store = s3_store(s3_server, bucket) | {"AWS_ENDPOINT_URL": proxy.url}
        assert ended([scenario.connector(store, root=tree, UNTIL="now")])
        proxy.add(Rule(on(path="_journal/"), before=lambda _: time.sleep(0.4)))
        window = {"AUTO_OFFSET_RESET": "2026-03-01T00:01:40Z", "FOLLOW_OFFSETS": "again"}
        assert ended([scenario.connector(store, window, root=tree, UNTIL="2026-03-01T00:05:00Z")])
    again = mirror(s3_server, bucket, tmp_path / "lake").numbers()
    assert again == sorted([*range(1_000), *range(100, 300)])


@pytest.mark.night
def test_a_last_record_that_cannot_be_decompressed_is_passed_over(scenario: Scenario) -> None:
    scenario.produce(records(100))
    produce_compressed(scenario, "zstd", [b" " * 8_000_000])
    small = '{"receive.message.max.bytes": 3000000, "fetch.max.bytes": 1000000}'
    assert ended([scenario.connector(UNTIL="now", KAFKA_CLIENT_CONFIG=small)])
    assert scenario.lake.numbers() == [*range(100)]
