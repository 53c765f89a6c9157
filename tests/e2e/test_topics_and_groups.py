"""Topics and consumer groups that change while a connector runs or rests: nothing is passed over or doubled."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET
from dev.kafka import LocalKafka
from tests.e2e.conftest import NewScenario
from tests.e2e.records import records, value
from tests.e2e.scenario import Scenario, tree_of
from tests.support.waiting import wait_until

FATAL = 1


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


@pytest.mark.parametrize("lane", ["plain", "framework"])
def test_a_group_begins_at_a_time_and_follows_another_one(new_scenario: NewScenario, tmp_path: Path, lane: str) -> None:
    """Partition 1 has no record since then, and begins at its end."""
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
        scenario.wait_until_committed(100 + first - 1_000 + more, connector)
        assert connector.stop() == 0
        return sorted(scenario.lake.numbers())

    wanted = [*range(60, 100), *range(1_000, 1_010)]
    assert written(10, 1_000) == wanted
    since = datetime.fromtimestamp(value(90)["ts_ms"] / 1000, UTC)
    wanted += [*range(90, 100), *range(1_000, 1_020)]
    assert written(10, 1_010, "once") == sorted(wanted)
    assert written(10, 1_020, "once") == sorted([*wanted, *range(1_020, 1_030)])
