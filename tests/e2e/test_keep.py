"""KEEP: members of a group erase what is too old by themselves, beside their work."""

import json
import time
from functools import partial

import pytest

from tests.e2e.conftest import NewScenario
from tests.e2e.connector import ConnectorProcess
from tests.e2e.records import records, value
from tests.e2e.test_metrics import scrape

OLD, NEW, LATER = 2_000, 500, 300


def metric(connector: ConnectorProcess, name: str) -> float:
    return sum(value for _, value in scrape(connector).get(f"lake_sink_erased_{name}", []))


def knows(member: ConnectorProcess) -> bool:
    return metric(member, "rows") == OLD


@pytest.mark.alone  # beside others, what has the lowest priority takes for ever
def test_what_is_too_old_goes_once_it_is_confirmed_and_all_else_stays_there_once(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=2)

    def produce_new(count: int, first: int) -> None:
        now = int(time.time() * 1_000)
        rows = (value(n) | {"ts_ms": now} for n in range(first, first + count))
        scenario.produce((None, json.dumps(row), None, row["n"] % 2) for row in rows)

    first = scenario.connector(HIVE_COLUMNS="year,month")
    scenario.produce(records(OLD, partitions=2))
    produce_new(NEW, OLD)
    scenario.wait_until_committed(OLD + NEW, by=first)
    first.stop()

    watched = scenario.connector(HIVE_COLUMNS="year,month", KEEP="400d")
    watched.wait_for_log("erase ended with code 2")
    watched.wait_until(lambda: metric(watched, "refused_percent") > 50, "most is refused")
    watched.stop()
    assert len(scenario.lake.numbers()) == OLD + NEW

    confirmed = partial(scenario.connector, HIVE_COLUMNS="year,month", KEEP="400d", KEEP_CONFIRMED="400d")
    members = [confirmed() for _ in range(2)]
    produce_new(LATER, OLD + NEW)
    for member in members:
        member.wait_for_log("claimed: ")
    members[0].wait_until(lambda: any(map(knows, members)), "told by one; the other asks every five minutes")
    scenario.wait_until_committed(OLD + NEW + LATER, by=members[0])
    begun = [member.log.count("erase: 2,000 rows erased") for member in members]
    for member in members:
        member.stop()
    assert sum(begun) == 1
    assert scenario.lake.numbers() == list(range(OLD, OLD + NEW + LATER))
