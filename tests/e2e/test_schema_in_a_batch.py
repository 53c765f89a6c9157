"""The schema changes amid a batch whose files have rows of several partitions: every row is there once, as it was."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dev.broker import Record
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import offsets_of_batch
from tests.e2e.records import PLACES

pytestmark = pytest.mark.java

PARTITIONS = 2
OF_EACH = 3_000
CHANGES = ("bigint", "double", "new column", "larger struct")
LARGE = "x" * 200  # so that the rows of each kind are several portions


def value(n: int) -> dict[str, Any]:
    """The records of a change keep what the changes before it brought."""
    change = n // OF_EACH
    found: dict[str, Any] = {"n": n, "place": PLACES[n % len(PLACES)], "pad": LARGE, "s": {"a": n}}
    found["v"] = n if change == 0 else n + 0.5
    if change >= 2:
        found["later"] = f"text {n}"
    if change >= 3:
        found["s"] = {"a": n, "b": {"c": f"inner {n}"}}
    return found


def some_records() -> Iterator[Record]:
    for n in range(len(CHANGES) * OF_EACH):
        yield None, json.dumps(value(n)), None, n // len(PLACES) % PARTITIONS


def test_every_row_is_there_once_with_its_values(new_scenario: NewScenario) -> None:
    scenario = new_scenario(PARTITIONS)
    scenario.produce(some_records())
    total = len(CHANGES) * OF_EACH
    connector = scenario.connector(HIVE_COLUMNS="place", BATCH_SIZE="1000000", MAX_BUFFER_MB="2", COMMIT_INTERVAL="15")
    scenario.wait_until_committed(total, by=connector)
    assert connector.stop() == 0
    assert "(a column's type changed)" in connector.log

    lake = scenario.lake
    found = lake.query("SELECT n, place, v, later, s FROM {source} ORDER BY n")  # DuckDB 2.0.0 cannot read s.b.c
    assert [row[:-1] for row in found] == [
        (each["n"], each["place"], each["v"], each.get("later")) for each in map(value, range(total))
    ]
    assert [_without_nulls(row[-1]) for row in found] == [value(n)["s"] for n in range(total)]
    shared = [path for path in lake.files() if len(offsets_of_batch(path)) == PARTITIONS]
    assert shared, "files have rows of several partitions"
    assert len(lake.files()) < len(CHANGES) * len(PLACES), "several changes are in one batch"


def _without_nulls(struct: dict[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in struct.items() if inner not in (None, {"c": None})}
