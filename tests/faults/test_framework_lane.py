"""Processes with an edited ``transform()`` and a real Kafka, killed at each step and disturbed.

Where ``transform()`` asks for the application, quixstreams' loop runs it.
"""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition

from dev.broker import Broker
from dev.connector import customised
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Lake
from tests.e2e.scenario import Scenario
from tests.services.groups import leave_group
from tests.support.waiting import wait_until

PARTITIONS = 2
_NOON = 1_704_067_200_000
DEATHS = ("before upload", "before the log's last write", "after the log's last write")
SETTINGS = {"COMMIT_INTERVAL": "0.5", "METADATA_COLUMNS": "__partition,__offset", "MAX_BUFFER_MB": "8"}
TRANSFORM = """
from quixstreams.dataframe.windows import Count

def transform({}):
    {}
"""
BODIES = {
    "filtered": "return sdf[sdf['n'] % 3 != 0]",
    "expanded": "return sdf.apply(lambda value: [{**value, 'part': part} for part in range(3)], expand=True)",
    "windowed": "windows = sdf.tumbling_window(1_000).agg(count=Count()).final()\n"
    "    return windows.apply(lambda window: {'ts_ms': window['start'], **window})",
    "failing": "return sdf.apply(lambda value: {**value, 'fails': 1 // (value['n'] % 10 != 3)})",
}
Row = tuple[Any, ...]


class Site(Scenario):
    def __init__(self, kafka: Broker, folder: Path, transform: str, parameters: str = "sdf, app") -> None:
        super().__init__(kafka, folder, PARTITIONS)
        self.is_framework = "app" in parameters
        self.tree = customised(folder / "tree", TRANSFORM.format(parameters, BODIES[transform]))
        self.produced = 0
        self.bad: set[int] = set()

    def send(self, count: int, bad_fifth: bool = False) -> None:
        """Produce records with the next numbers; a second of time lies between two of a partition."""
        numbers = range(self.produced, self.produced + count)
        self.produced += count
        bad = {n for n in numbers if bad_fifth and n % 5 == 1}
        self.bad |= bad
        values = ("{" if n in bad else json.dumps({"n": n, "ts_ms": _NOON + n}) for n in numbers)
        self.produce(
            (f"key-{n % PARTITIONS}", value, _NOON + 500 * n, n % PARTITIONS)
            for n, value in zip(numbers, values, strict=True)
        )

    def start(self, die: str = "") -> ConnectorProcess:
        return self.connector(self.local_store, SETTINGS, root=self.tree, LIGHT_DIE=die)

    def rows(self) -> Counter[Row]:
        """The rows of the table, by what tells them apart."""
        names = ("n", "part", "start", "count", "__partition")
        return Counter(tuple(row.get(name) for name in names) for row in _rows_in(self.lake))

    def dead_letters(self) -> Counter[int]:
        folder = self.folder / "lake" / "data" / "_dead_letter" / self.topic
        return Counter(row["offset"] * PARTITIONS + row["partition"] for row in _rows_in(Lake(folder)))

    def wanted(self, transform: str) -> Counter[Row]:
        good = [n for n in range(self.produced) if n not in self.bad]
        if transform == "expanded":
            return Counter((n, part, None, None, n % PARTITIONS) for n in good for part in range(3))
        if transform == "windowed":  # a record of a key each second: a window closes with the next one
            starts = [(n, (_NOON + 500 * n) // 1_000 * 1_000) for n in good[:-PARTITIONS]]
            return Counter((None, None, start, 1, n % PARTITIONS) for n, start in starts)
        return Counter((n, None, None, None, n % PARTITIONS) for n in good if transform == "failing" or n % 3)


def _rows_in(table: Lake) -> Iterator[dict[str, Any]]:
    for path in table.files():
        yield from pq.ParquetFile(path).read().to_pylist()


@pytest.fixture
def site(request: pytest.FixtureRequest, kafka: Broker, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(kafka, tmp_path, *request.param)) as made:
        yield made


@pytest.mark.night
@pytest.mark.parametrize(
    ("site", "transform", "some_are_bad"),
    [
        *(((transform,), transform, False) for transform in BODIES),
        (("expanded",), "expanded", True),
        *(((transform, "sdf"), transform, True) for transform in BODIES if transform != "windowed"),
    ],
    ids=[*BODIES, "bad records between good ones", *(f"{name}, stateless" for name in BODIES if name != "windowed")],
    indirect=["site"],
)
def test_every_row_is_there_once_after_deaths_at_each_step(site: Site, transform: str, some_are_bad: bool) -> None:
    site.send(400)
    for death in (*DEATHS, "between log and commit") if site.is_framework else DEATHS:
        with site.start(die=f"{death}:2") as life:

            def is_dead(life: ConnectorProcess = life) -> bool:
                site.send(20, some_are_bad)  # a second batch comes for certain
                return life.exit_code is not None

            wait_until(is_dead, f"the death {death}", pause=0.3)
            assert life.wait() == -signal.SIGKILL, life.log[-4_000:]
        leave_group(site.kafka.bootstrap_servers, site.group)
    life = site.start()
    site.send(100)
    site.finish(life, site.produced)
    if transform == "failing":
        site.bad |= {n for n in range(site.produced) if n % 10 == 3}
    found, expected = site.rows(), site.wanted(transform)
    assert (expected - found, found - expected) == (Counter(), Counter())
    assert site.dead_letters() == Counter(site.bad)


@pytest.mark.parametrize("site", [("filtered",)], indirect=True)
def test_records_that_expire_while_it_runs_are_passed_over(site: Site) -> None:
    life = site.start()
    site.send(100)
    site.wait_until_committed(100, by=life)
    life.signal(signal.SIGSTOP)
    site.send(100)
    site.kafka.delete_records([TopicPartition(site.topic, number, 75) for number in range(PARTITIONS)])
    life.signal(signal.SIGCONT)
    site.finish(life, site.produced)
    found, left = site.rows(), {row for row in site.wanted("filtered") if not 100 <= row[0] < 150}
    assert left <= found.keys()  # the client may have fetched some of the others before
    assert max(found.values()) == 1
