"""The events of ``BATCH_TOPIC``: each batch in the lake has one, over kills and while the topic is away."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET
from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import mirror
from tests.e2e.records import records
from tests.e2e.scenario import Scenario, s3_store
from tests.services.groups import leave_group

ROWS = 6_000


def events(scenario: Scenario, topic: str) -> Iterator[dict[str, Any]]:
    """All events of the topic, in order."""
    consumer = Consumer({"bootstrap.servers": scenario.kafka.bootstrap_servers, "group.id": "events", **QUIET})
    tp = TopicPartition(topic, 0, 0)
    consumer.assign([tp])
    low, end = consumer.get_watermark_offsets(tp)
    for _ in range(low, end):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        yield json.loads(message.value())
    consumer.close()


def missing(answers: list[dict[str, Any]], ends: list[int]) -> list[tuple[int, int, int]]:
    """The gaps between the events of each partition, and to its end."""
    gaps = []
    for partition, end in enumerate(ends):
        following = 0
        for each in (each for event in answers for each in event["partitions"] if each["partition"] == partition):
            if each["from"] is not None and each["from"] > following:
                gaps.append((partition, following, each["from"]))
            following = max(following, each["to"] + 1)
        if following < end:
            gaps.append((partition, following, end))
    return gaps


@pytest.mark.parametrize("place", ["before the log's last write", "after the log's last write"])
def test_each_batch_has_an_event_though_members_are_killed(
    new_scenario: NewScenario, s3_server: LocalMinio, bucket: str, place: str
) -> None:
    scenario = new_scenario(partitions=2)
    topic = f"{scenario.topic}.batches"
    scenario.kafka.create_topic(topic, 1)
    store = s3_store(s3_server, bucket) | {"BATCH_TOPIC": topic}
    scenario.produce(records(ROWS // 3, partitions=2))
    killed = scenario.connector(store, LIGHT_DIE=f"{place}:1")
    killed.wait_until(lambda: killed.exit_code is not None, "its death")
    leave_group(scenario.kafka.bootstrap_servers, scenario.group)
    members = [scenario.connector(store) for _ in range(2)]
    for member in members:
        member.wait_for_log(r"assigned: ")
    for first in range(ROWS // 3, ROWS, ROWS // 3):
        scenario.produce(records(ROWS // 3, first=first, partitions=2))
        scenario.wait_until_committed(first + ROWS // 3, by=members[0])
    assert [member.stop() for member in members] == [0, 0]

    lake = mirror(s3_server, bucket, scenario.folder / "seen")
    assert lake.numbers() == [*range(ROWS)]
    answers = [*events(scenario, topic)]
    listed = {file["key"].rpartition("/")[2] for event in answers for file in event["files"] or ()}
    assert {path.name for path in lake.files()} == listed
    assert missing(answers, [ROWS // 2] * 2) == []


def test_a_topic_that_was_away_gets_all_offsets(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=1)
    topic = f"{scenario.topic}.batches"
    refused = scenario.connector(BATCH_TOPIC=topic)
    assert refused.wait() == 2
    assert "BATCH_TOPIC" in refused.log
    scenario.kafka.create_topic(topic, 1)
    connector = scenario.connector(BATCH_TOPIC=topic)
    scenario.produce(records(100))
    scenario.wait_until_committed(100, by=connector)
    admin = AdminClient({"bootstrap.servers": scenario.kafka.bootstrap_servers, **QUIET})
    admin.delete_topics([topic])[topic].result()
    for first in (100, 200, 300):
        scenario.produce(records(100, first=first))
        scenario.wait_until_committed(first + 100, by=connector)
    connector.wait_for_log("Events are merged or left out")
    scenario.kafka.create_topic(topic, 1)
    connector.wait_until(
        lambda: any(each["to"] == 399 for e in events(scenario, topic) for each in e["partitions"]), "399"
    )
    assert connector.stop() == 0
    answers = [*events(scenario, topic)]
    assert min(each["from"] for event in answers for each in event["partitions"]) <= 100
