"""Topics and consumer groups that change while a connector runs or rests: nothing is passed over or doubled."""

from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET
from dev.kafka import LocalKafka
from tests.e2e.conftest import NewScenario
from tests.e2e.connector import ConnectorProcess
from tests.e2e.records import records
from tests.e2e.scenario import Scenario

FATAL = 1
RESTART = 75  # the exit code that a platform answers by a new start
STARTS = 3


def test_partitions_that_are_added_are_read_from_their_beginning(scenario: Scenario) -> None:
    """By an old group whose partitions without offsets would begin at the latest record."""
    first = scenario.connector(AUTO_OFFSET_RESET="latest")
    first.wait_for_log(r"claimed: ")
    scenario.produce(records(100))
    scenario.wait_until_committed(100, first)
    add_partitions(scenario, 3)

    scenario.produce(records(200, first=100, partitions=3))  # while it runs: it comes to know of them by itself
    first.wait_until(lambda: rows(scenario) >= 300, "the rows of new partitions")
    assert first.stop() == 0
    add_partitions(scenario, 4)
    scenario.produce(("key", text, at, 3) for _, text, at, _ in records(100, first=300))
    second = scenario.connector(AUTO_OFFSET_RESET="latest")
    second.wait_until(lambda: rows(scenario) >= 400, "the rows of the newest partition")
    assert second.stop() == 0

    assert scenario.lake.numbers() == list(range(400))


def test_a_topic_recreated_and_refilled_while_the_connector_runs(scenario: Scenario) -> None:
    connector = scenario.connector()
    scenario.produce(records(500))
    scenario.wait_until_committed(500, connector)
    connector.wait_until(lambda: rows(scenario) == 500, "500 rows")

    recreate(scenario)
    scenario.produce(records(2_000, first=500))  # beyond the offset where the consumer waits
    for _ in range(STARTS):
        if is_through(scenario, connector, 2_500):
            break
        assert connector.exit_code == RESTART
        connector = scenario.connector()
    assert connector.stop() == 0

    assert scenario.lake.numbers() == list(range(2_500))


def test_a_deleted_topic_stays_deleted_and_the_status_page_says_so(tmp_path: Path) -> None:
    """Though the broker creates topics for clients that ask for them, as Kafka does by default."""
    with (
        LocalKafka(settings={"auto.create.topics.enable": "true"}) as kafka,
        closing(Scenario(kafka, tmp_path)) as scenario,
    ):
        connector = scenario.connector()
        scenario.produce(records(100))
        scenario.wait_until_committed(100, connector)
        admin = delete(scenario)

        connector.wait_until(lambda: ">The input topic is not available<" in connector.page(), "the page to say it")
        assert connector.wait() == FATAL
        assert scenario.topic not in admin.list_topics(timeout=30).topics


def test_offsets_that_another_program_has_committed_are_told(scenario: Scenario) -> None:
    scenario.produce(records(300))
    first = scenario.connector()
    scenario.wait_until_committed(300, first)
    assert first.stop() == 0
    scenario.produce(records(300, first=300))
    commit(scenario, 600)

    second = scenario.connector()
    told = second.wait_for_log(r"^.* (?:WARNING|ERROR) .*START_FROM.*$")

    assert f"{scenario.topic}[0]" in told[0]


def test_two_tables_on_one_group_are_refused(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=2)
    scenario.produce(records(200, partitions=2))
    both = [scenario.connector(TABLE_NAME=name) for name in ("first", "second")]
    both[0].wait_until(lambda: any(one.exit_code is not None for one in both), "the end of one of the two")

    refused = [one for one in both if one.exit_code is not None]
    for one in refused:
        assert one.exit_code == RESTART
        assert "CONSUMER_GROUP" in one.complaints()[-1]


def is_through(scenario: Scenario, connector: ConnectorProcess, count: int) -> bool:
    """Whether the connector wrote so many rows, and did not end before."""
    connector.wait_until(lambda: connector.exit_code is not None or rows(scenario) == count, "all rows, or an end")
    return connector.exit_code is None


def add_partitions(scenario: Scenario, count: int) -> None:
    scenario.kafka.add_partitions(scenario.topic, count)
    scenario.partitions = count


def delete(scenario: Scenario) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": scenario.kafka.bootstrap_servers, **QUIET})
    admin.delete_topics([scenario.topic])[scenario.topic].result(30)
    return admin


def recreate(scenario: Scenario) -> None:
    delete(scenario)
    scenario.kafka.create_topic(scenario.topic, scenario.partitions)


def commit(scenario: Scenario, offset: int) -> None:
    """Commit for the group, as another program that uses it."""
    consumer = Consumer({"bootstrap.servers": scenario.kafka.bootstrap_servers, "group.id": scenario.group, **QUIET})
    try:
        consumer.commit(offsets=[TopicPartition(scenario.topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def rows(scenario: Scenario) -> int:
    return len(scenario.lake.numbers())
