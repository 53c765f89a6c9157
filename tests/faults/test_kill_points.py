"""The process is killed between any two steps of a batch; the next one finishes or undoes what it finds.

A proxy in front of the store and one in front of the catalog tell where the connector is, and kill it there.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.broker import Broker
from tests.e2e.connector import ConnectorProcess
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
EVERY_DAY = {"all files but one are stored", "the batch is registered"}


class Target:
    """The process that is to die, known only after the proxies are."""

    def __init__(self) -> None:
        self.kill: Callable[[], None] = lambda: None
        self.dies = threading.Event()

    def die(self, *_: object) -> None:
        self.kill()
        self.dies.set()


@pytest.fixture
def scenario(kafka: Broker, tmp_path: Path) -> Iterator[Scenario]:
    with closing(Scenario(kafka, tmp_path, PARTITIONS)) as scenario:
        scenario.produce(records(RECORDS, partitions=PARTITIONS))
        yield scenario


def kill_at(site: Site, point: Point, target: Target) -> Rule:
    rule = Rule(point.matches, when=nth(point.number))
    if point.is_after:
        rule.after = target.die
    else:
        rule.before = target.die
    return (site.to_catalog if point.at_catalog else site.to_store).add(rule)


def kill_python(connector: ConnectorProcess) -> Callable[[], None]:
    return lambda: connector.signal(signal.SIGKILL)


def kill_java(connector: ConnectorProcess) -> Callable[[], None]:
    def kill() -> None:
        java = connector.java()
        assert java is not None
        os.kill(java, signal.SIGKILL)
        connector.wait()  # the request under way is not answered before

    return kill


@pytest.mark.parametrize(
    "point", [point if point in EVERY_DAY else pytest.param(point, marks=pytest.mark.night) for point in POINTS]
)
def test_a_kill_between_two_steps(site: Site, scenario: Scenario, point: str) -> None:
    target = Target()
    rule = kill_at(site, POINTS[point], target)
    first = scenario.connector(site.settings, SETTINGS)
    target.kill = kill_python(first)
    assert first.wait() == -signal.SIGKILL
    assert rule.met == 1
    assert_the_next_one_finishes(site, scenario)


@pytest.mark.usefixtures("parsed_classes")
@pytest.mark.parametrize(
    "point",
    [pytest.param("a batch is in files and not announced", marks=pytest.mark.night), "all files but one are stored"],
)
def test_java_dies_between_two_steps(site: Site, scenario: Scenario, point: str) -> None:
    target = Target()
    kill_at(site, POINTS[point], target)
    first = scenario.connector(site.settings, SETTINGS, java=True)
    target.kill = kill_java(first)
    assert first.wait() == 70
    assert target.dies.wait(10)
    assert_the_next_one_finishes(site, scenario)


def assert_the_next_one_finishes(site: Site, scenario: Scenario) -> None:
    """Every record is in the lake once, and the catalog has exactly the files that are there."""
    second = scenario.connector(site.direct_settings, SETTINGS)
    scenario.wait_until_committed(RECORDS, by=second)
    assert second.stop() == 0
    lake = site.copy_of(scenario.topic, scenario.folder / "mirror")
    assert lake.numbers() == list(range(RECORDS))
