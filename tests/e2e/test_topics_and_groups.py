"""Topics and consumer groups that change while a connector runs or rests: nothing is passed over or doubled."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET
from dev.connector import environment
from dev.kafka import LocalKafka
from tests.e2e.conftest import NewScenario
from tests.e2e.records import records, value
from tests.e2e.scenario import Scenario, tree_of
from tests.services.main_process import run_main
from tests.support.waiting import wait_until

FATAL = 1
TRY_AGAIN = 75


def test_a_deleted_topic_stays_deleted_and_the_status_page_says_so(tmp_path: Path) -> None:
    """Though the broker creates topics for clients that ask for them, as Kafka does by default."""
    with (
        LocalKafka(settings={"auto.create.topics.enable": "true"}) as kafka,
        closing(Scenario(kafka, tmp_path)) as scenario,
    ):
        connector = scenario.connector()
        scenario.produce(records(100))
        scenario.wait_until_committed(100, connector)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
        deleted = admin.delete_topics([scenario.topic])[scenario.topic]
        wait_until(deleted.done, "the end of the topic")
        deleted.result()

        connector.wait_until(lambda: ">The input topic is not available<" in connector.page(), "the page to say it")
        assert connector.wait() == FATAL
        assert scenario.topic not in admin.list_topics(timeout=30).topics


@contextmanager
def another_program(scenario: Scenario, **properties: str) -> Iterator[None]:
    """A consumer in the group that has all partitions of the topic at first."""
    given = {"bootstrap.servers": scenario.kafka.bootstrap_servers, "group.id": scenario.group, "client.id": "old-sink"}
    over = threading.Event()
    with closing(Consumer({**given, **properties, **QUIET})) as consumer, ThreadPoolExecutor(1) as thread:
        consumer.subscribe([scenario.topic])
        wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) > 0, "its partitions", pause=0)

        def poll() -> None:
            while not over.is_set():
                consumer.poll(0.1)

        polling = thread.submit(poll)
        try:
            yield
        finally:
            over.set()
            polling.result()


@pytest.mark.parametrize("lane", ["plain", pytest.param("framework", marks=pytest.mark.night)])
def test_another_program_that_takes_records_is_named(new_scenario: NewScenario, tmp_path: Path, lane: str) -> None:
    scenario = new_scenario(partitions=2)
    told = f"another program reads topic {scenario.topic} in consumer group {scenario.group}: old-sink at "
    with another_program(scenario):
        settings = {"input": scenario.topic, "CONSUMER_GROUP": scenario.group, "HTTP_PORT": "0", **scenario.local_store}
        variables = environment({"KAFKA_BOOTSTRAP_SERVERS": scenario.kafka.bootstrap_servers, **settings})
        assert told in run_main("check", "--without", "spark", environment=variables).stderr
        connector = scenario.connector(root=tree_of(lane, tmp_path))
        connector.wait_for_log(told)
        connector.wait_until(lambda: told in connector.page(), "the page to say it")
        assert connector.stop() == 0


def test_a_program_that_shares_out_partitions_in_another_way_is_told(scenario: Scenario) -> None:
    with another_program(scenario, **{"partition.assignment.strategy": "cooperative-sticky"}):
        connector = scenario.connector()
        assert connector.wait() == TRY_AGAIN
        assert "in the group uses another partition.assignment.strategy. Stop that program" in connector.log


@pytest.mark.parametrize("lane", ["plain", "framework"])
def test_a_group_begins_at_a_time_and_follows_another_one(new_scenario: NewScenario, tmp_path: Path, lane: str) -> None:
    """Partition 1 has no record since then, and begins at its end; 2 is added later, with records of before."""
    scenario = new_scenario(partitions=2)
    tree = tree_of(lane, tmp_path)
    scenario.produce(
        (key, body, value(n)["ts_ms"], n % 2 if n < 50 else 0) for n, (key, body, _, _) in enumerate(records(100))
    )
    since = datetime.fromtimestamp(value(60)["ts_ms"] / 1000, UTC)

    def written(more: int, first: int, follow: str = "") -> list[int]:
        connector = scenario.connector(root=tree, AUTO_OFFSET_RESET=since.isoformat(), FOLLOW_OFFSETS=follow)
        connector.wait_for_log("CONNECTED!")
        scenario.produce(records(more, first, partitions=2))
        scenario.finish(connector, 100 + first - 1_000 + more + added)
        return sorted(scenario.lake.numbers())

    added = 0
    wanted = [*range(60, 100), *range(1_000, 1_010)]
    assert written(10, 1_000) == wanted
    since = datetime.fromtimestamp(value(90)["ts_ms"] / 1000, UTC)
    wanted += [*range(90, 100), *range(1_000, 1_020)]
    assert written(10, 1_010, "once") == sorted(wanted)
    scenario.topics[scenario.topic], added = 3, 10
    scenario.kafka.add_partitions(scenario.topic, 3)
    scenario.produce((key, body, value(0)["ts_ms"], 2) for key, body, _, _ in records(added, 2_000))
    assert written(10, 1_020, "once") == sorted([*wanted, *range(1_020, 1_030), *range(2_000, 2_010)])
