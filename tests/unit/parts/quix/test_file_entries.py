"""Zone maps from the footers of files."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.parts.quix.file_entries import column_stats

NOON = datetime(2024, 1, 15, 12, 0, tzinfo=UTC)


def stats_of(folder: Path, columns: dict[str, Any], only: frozenset[str] | None = None, **options: Any) -> Any:
    path = folder / "f.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return column_stats(pq.read_metadata(path), only)


def test_numbers_have_floats_for_bounds(tmp_path: Path) -> None:
    stats = stats_of(
        tmp_path,
        {
            "whole": pa.array([3, None, -1], pa.int64()),
            "small": pa.array([1, 2, 3], pa.int32()),
            "fraction": [0.5, 2.5, None],
            "single": pa.array([0.5, 0.25, 1], pa.float32()),
            "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
        },
    )
    counted = {"type": "numeric", "null_count": 1, "value_count": 2}
    assert stats == {
        "whole": {**counted, "min": -1.0, "max": 3.0},
        "small": {**counted, "min": 1.0, "max": 3.0, "null_count": 0, "value_count": 3},
        "fraction": {**counted, "min": 0.5, "max": 2.5},
        "single": {**counted, "min": 0.25, "max": 1.0, "null_count": 0, "value_count": 3},
        "price": {**counted, "min": -2.25, "max": 1.5},
    }
    assert {type(stats[name][bound]) for name in stats for bound in ("min", "max")} == {float}


def test_times_have_texts_for_bounds(tmp_path: Path) -> None:
    later = NOON.replace(microsecond=250)
    stats = stats_of(
        tmp_path,
        {
            "moment": pa.array([later, NOON], pa.timestamp("us", "UTC")),
            "wall_clock": pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")),
            "day": [date(2024, 2, 29), date(1969, 12, 31)],
        },
    )
    bounds = {name: (found["type"], found["min"], found["max"]) for name, found in stats.items()}
    assert bounds == {
        "moment": ("timestamp", "2024-01-15T12:00:00+00:00", "2024-01-15T12:00:00.000250+00:00"),
        "wall_clock": ("timestamp", "2024-01-15T12:00:00", "2024-01-15T12:00:00"),
        "day": ("timestamp", "1969-12-31", "2024-02-29"),
    }


def test_columns_that_cannot_be_told_by_bounds_have_none(tmp_path: Path) -> None:
    stats = stats_of(
        tmp_path,
        {
            "__key": [1, 2],
            "text": ["a", "b"],
            "flag": [True, False],
            "bytes": [b"a", b"b"],
            "never": pa.array([None, None], pa.int64()),
            "list": [[1], [2]],
            "struct": [{"a": 1}, {"a": 2}],
            "infinite": [1.0, float("inf")],
            "no_number": [float("nan"), float("nan")],
            "far": pa.array([2**58, 0], pa.int64()).cast(pa.timestamp("us")),
            "far_day": pa.array([10**7, 0], pa.int32()).cast(pa.date32()),
        },
    )
    assert stats == {}


def test_only_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    stats = stats_of(tmp_path, {"a": [1], "b": [2], "__key": [3]}, frozenset({"b", "__key", "unknown"}))
    assert list(stats) == ["b"]


def test_all_row_groups_count(tmp_path: Path) -> None:
    columns = {"a": pa.array([5, 6, None, None, 1, None], pa.int64())}
    stats = stats_of(tmp_path, columns, row_group_size=2)
    assert stats["a"] == {"type": "numeric", "min": 1.0, "max": 6.0, "null_count": 3, "value_count": 3}


def test_a_file_without_statistics_or_rows_has_no_bounds(tmp_path: Path) -> None:
    assert stats_of(tmp_path, {"a": [1, 2]}, write_statistics=False) == {}
    assert stats_of(tmp_path, {"a": pa.array([], pa.int64())}) == {}


def test_a_name_with_a_dot_is_not_taken_for_a_field(tmp_path: Path) -> None:
    nested = pa.array([{"b": 7, "c": [1]}, {"b": 8, "c": [2]}])
    stats = stats_of(tmp_path, {"first": [0, 1], "a": nested, "a.b": [3, 4], "last": [5, 6]})
    assert {name: (found["min"], found["max"]) for name, found in stats.items()} == {
        "first": (0.0, 1.0),
        "a.b": (3.0, 4.0),
        "last": (5.0, 6.0),
    }


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 1_700_000_000_123_456_789])
def test_integers_between_two_floats_lie_within_the_bounds(tmp_path: Path, value: int) -> None:
    found = stats_of(tmp_path, {"a": pa.array([value], pa.int64())})["a"]
    assert found["min"] <= value <= found["max"]


@given(st.decimals(min_value=Decimal("-1e27"), max_value=Decimal("1e27"), places=10, allow_nan=False))
def test_decimals_lie_within_the_bounds_and_these_are_the_next_floats(
    tmp_path_factory: pytest.TempPathFactory, value: Decimal
) -> None:
    folder = tmp_path_factory.mktemp("stats")
    found = stats_of(folder, {"a": pa.array([value], pa.decimal128(38, 10))})["a"]
    low, high = found["min"], found["max"]
    assert Decimal(low) <= value <= Decimal(high)
    assert high in (low, math.nextafter(low, math.inf))
