"""Which snapshots of an Iceberg table the connector expires, and which the table keeps by its own settings."""

from collections.abc import Mapping
from typing import Any

import pytest

from app.parts.iceberg import table as iceberg
from app.parts.iceberg import table_metadata
from tests.unit.parts.iceberg.iceberg_bench import IcebergBench, marks

AGE, FEWEST = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
DAY = 86_400_000
AT_ONCE, NEVER = 1e-9, 1_000.0  # in days


def left_by_the_next_commit(bench: IcebergBench, keep_days: float) -> list[int]:
    """The numbers of the snapshots that are left of six, and not of their rows, which stay."""
    before = [each.snapshot_id for each in bench.table.snapshots()]
    bench.member(keep_days=keep_days).add_files([bench.file("last", {"n": [5]})], "readings", marks(5))
    assert len(bench.rows()) == 6
    left = [each.snapshot_id for each in bench.table.snapshots()]
    return [before.index(each) if each in before else 5 for each in left]


@pytest.mark.parametrize(
    ("keep_days", "most", "left"), [(AT_ONCE, 1_000, 2), (1.0, 3, 5)], ids=["old ones go", "only so many stay"]
)
def test_snapshots_expire_and_their_rows_stay(
    bench: IcebergBench, monkeypatch: pytest.MonkeyPatch, keep_days: float, most: int, left: int
) -> None:
    monkeypatch.setattr(iceberg, "_COMMITS_BETWEEN_EXPIRIES", 2)
    monkeypatch.setattr(table_metadata, "_SNAPSHOTS", most)
    member = bench.member(keep_days=keep_days)
    for number in range(9):
        member.add_files([bench.file(f"file-{number}", {"n": [number]})], "readings", marks(number))
    assert len(bench.table.snapshots()) <= left
    assert len(bench.rows()) == 9


@pytest.mark.parametrize(
    ("properties", "keep_days", "left"),
    [
        ({}, AT_ONCE, [5]),
        ({"gc.enabled": "false"}, AT_ONCE, [0, 1, 2, 3, 4, 5]),
        ({AGE: str(DAY)}, AT_ONCE, [0, 1, 2, 3, 4, 5]),
        ({AGE: "1"}, NEVER, [5]),
        ({FEWEST: "3"}, AT_ONCE, [3, 4, 5]),
        ({AGE: "1", FEWEST: "2"}, NEVER, [4, 5]),
    ],
    ids=str,
)
def test_a_table_that_says_how_long_it_keeps_snapshots_is_heeded(
    bench: IcebergBench, properties: dict[str, str], keep_days: float, left: list[int]
) -> None:
    bench.fill(5, NEVER)
    with bench.table.transaction() as transaction:
        transaction.set_properties(properties)
    assert left_by_the_next_commit(bench, keep_days) == left
    assert {name: bench.table.properties.get(name) for name in properties} == properties


def test_a_table_that_wants_its_snapshots_keeps_more_than_are_quick(
    bench: IcebergBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_metadata, "_SNAPSHOTS", 2)
    bench.fill(5, NEVER)
    with bench.table.transaction() as transaction:
        transaction.set_properties({AGE: str(DAY)})
    assert left_by_the_next_commit(bench, NEVER) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("of_branch", "left"),
    [
        ({}, [2, 5]),
        ({"min_snapshots_to_keep": 2}, [1, 2, 5]),
        ({"max_snapshot_age_ms": DAY}, [0, 1, 2, 5]),
        ({"max_ref_age_ms": 1}, [2, 5]),
    ],
    ids=str,
)
def test_a_branch_keeps_what_it_wants(bench: IcebergBench, of_branch: Mapping[str, Any], left: list[int]) -> None:
    bench.fill(5, NEVER)
    bench.table.manage_snapshots().create_branch(bench.table.snapshots()[2].snapshot_id, "theirs", **of_branch).commit()
    assert left_by_the_next_commit(bench, AT_ONCE) == left


def test_a_tag_keeps_its_snapshot_alone(bench: IcebergBench) -> None:
    bench.fill(5, NEVER)
    with bench.table.transaction() as transaction:
        transaction.set_properties({FEWEST: "2"})
    bench.table.manage_snapshots().create_tag(bench.table.snapshots()[2].snapshot_id, "of the year").commit()
    assert left_by_the_next_commit(bench, AT_ONCE) == [2, 4, 5]
    assert "of the year" in bench.table.refs()
