"""Several topics in one connector: each row once in the table of its topic, under kills and joins, late or deleted."""

import json

import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient

from dev.broker import QUIET, Record
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import Lake, Tally
from tests.e2e.scenario import Scenario
from tests.services.groups import leave_group
from tests.support.waiting import wait_until

ROWS = 20_000  # of the second topic
KILLS = 2
A_SECOND = 4_000
FEW = 500  # rows of topics that come or go
TRY_AGAIN = 75


def _payment(n: int) -> Record:
    return "key", json.dumps({"n": n, "paid": n % 7 == 0, "ts_ms": 1_704_067_200_000 + n}), None, n % 2


def _payments(scenario: Scenario, name: str = "payments", rows: int = 0) -> str:
    """Another topic, of other columns."""
    topic = f"{scenario.topic}.{name}"
    scenario.kafka.create_topic(topic, 2)
    scenario.kafka.produce(topic, map(_payment, range(rows)))
    return topic


def _table(scenario: Scenario, topic: str) -> Lake:
    return Lake(scenario.folder / "lake" / "data" / topic)


def test_members_that_are_killed_and_join_write_each_row_once_into_the_table_of_its_topic(
    new_scenario: NewScenario,
) -> None:
    scenario = new_scenario(3)
    topics = [scenario.topic, _payments(scenario), _payments(scenario, "gone", FEW)]
    settings = {**scenario.local_store, "input": f"^{scenario.topic}", "TARGET_FILE_MB": "0"}
    with scenario.load(A_SECOND) as produced:
        members = [scenario.connector(settings)]
        for first in range(0, ROWS, ROWS // KILLS):
            scenario.kafka.produce(topics[1], map(_payment, range(first, first + ROWS // KILLS)))
            members.append(scenario.connector(settings))
            members[-2].wait_for_log("batch 2 ")
            members[-2].kill()
            leave_group(scenario.kafka.bootstrap_servers, scenario.group)
    members[-1].wait_until(lambda: len(_table(scenario, topics[2]).numbers()) == FEW, "the rows of the topic that goes")
    admin = AdminClient({"bootstrap.servers": scenario.kafka.bootstrap_servers, **QUIET})
    admin.delete_topics([topics[2]])[topics[2]].result()
    topics.append(_payments(scenario, "late", FEW))
    last = [members[-1], scenario.connector(settings)]
    rows = [produced[0], ROWS, FEW, FEW]
    tables = [_table(scenario, topic) for topic in topics]
    wait_until(lambda: all(len(each.numbers()) >= count for each, count in zip(tables, rows, strict=True)), "all rows")
    assert [member.stop() for member in last] == [0, 0]

    assert tables[0].tally_by_pyarrow() == Tally.of(range(rows[0]))
    assert [table.numbers() for table in tables[1:]] == [list(range(count)) for count in rows[1:]]
    files = [each.files() for each in tables[:2]]
    columns = [{name for path in some for name in pq.read_schema(path).names} for some in files]
    assert columns[0] - columns[1] == {"location", "temperature", "ok"}
    assert columns[1] - columns[0] == {"paid"}


def test_a_run_that_finds_no_topic_ends(new_scenario: NewScenario) -> None:
    """Kafka's own topics, which the expression matches, are none."""
    scenario = new_scenario()
    settings = {**scenario.local_store, "TABLE_NAME": "raw_{topic}", "UNTIL": "now"}
    assert scenario.connector(settings, input="^__consumer_.*").wait() == 0
    assert not [*(scenario.folder / "lake" / "data").glob("raw_*")]
