"""The process is killed between any two steps of a batch; the next one finishes or undoes what it finds.

A proxy in front of the store and one in front of the catalog tell where the connector is, and kill it there.
"""

import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.broker import Broker
from tests.e2e.records import records
from tests.e2e.scenario import Scenario
from tests.faults.proxy import Matches, Rule, nth, on
from tests.faults.site import Site

RECORDS = 2_000
PARTITIONS = 2
SETTINGS = {"HIVE_COLUMNS": "location", "BATCH_SIZE": str(RECORDS)}
WRITES_BEGIN = on("PUT", "/_journal/", body='"state":"pending"')
WRITES_DONE = on("PUT", "/_journal/", body='"state":"done"')
CLAIMS = on("PUT", "/readings-", body='"owner"')
STORES = on("PUT", ".parquet")
REGISTERS = on("POST", "add-files")


@dataclass(frozen=True)
class Point:
    """Where the process dies: before or after the server has done the n-th request of a kind."""

    matches: Matches
    number: int
    is_after: bool
    at_catalog: bool = False


# Of two partitions: one log and two claims are written, a batch is one intent and four files.
POINTS = {
    "the log is about to be begun": Point(WRITES_DONE, 1, is_after=False),
    "the log is begun and no claim names it": Point(WRITES_DONE, 1, is_after=True),
    "one of two claims is written": Point(CLAIMS, 1, is_after=True),
    "a batch is in files and not announced": Point(WRITES_BEGIN, 1, is_after=False),
    "the batch is announced": Point(WRITES_BEGIN, 1, is_after=True),
    "the first file is stored": Point(STORES, 1, is_after=True),
    "all files but one are stored": Point(STORES, 3, is_after=True),
    "all files are stored": Point(STORES, 4, is_after=True),
    "the batch is about to be registered": Point(REGISTERS, 1, is_after=False, at_catalog=True),
    "the batch is registered": Point(REGISTERS, 1, is_after=True, at_catalog=True),
    "the batch is done and not committed": Point(WRITES_DONE, 2, is_after=True),
}
# test_state_machine.py dies at all of them, in memory.
GATE = {"all files but one are stored", "the batch is registered"}


@pytest.fixture
def scenario(kafka: Broker, tmp_path: Path) -> Iterator[Scenario]:
    with closing(Scenario(kafka, tmp_path, PARTITIONS)) as scenario:
        scenario.produce(records(RECORDS, partitions=PARTITIONS))
        yield scenario


@pytest.mark.parametrize(
    "point", [point if point in GATE else pytest.param(point, marks=pytest.mark.night) for point in POINTS]
)
def test_a_kill_between_two_steps(site: Site, scenario: Scenario, point: str) -> None:
    where = POINTS[point]
    rule = Rule(where.matches, when=nth(where.number))
    if where.is_after:
        rule.after = lambda *_: first.signal(signal.SIGKILL)
    else:
        rule.before = lambda _: first.signal(signal.SIGKILL)
    (site.to_catalog if where.at_catalog else site.to_store).add(rule)
    first = scenario.connector(site.settings, SETTINGS)
    assert first.wait() == -signal.SIGKILL
    assert rule.met == 1
    second = scenario.connector(site.direct_settings, SETTINGS)
    scenario.wait_until_committed(RECORDS, by=second)
    assert second.stop() == 0
    assert site.copy_of(scenario.topic, scenario.folder / "mirror").numbers() == list(range(RECORDS))
