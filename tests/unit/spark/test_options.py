"""What Parquet is told of the files that a batch becomes."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from app.model import DataFile, StagedFile
from app.spark.options import parquet_options, without_dictionary


def staged(rows: int, largest_row: int = 1, large_values: Sequence[tuple[str, ...]] = ()) -> StagedFile:
    files = tuple(DataFile("data.parquet", {}, number) for number in (1, rows))
    return StagedFile(Path(), "group", files, largest_row=largest_row, large_values=large_values)


@pytest.mark.parametrize(
    ("rows", "bytes_"), [(1, 4_096), (45, 4_500), (1_000, 100_000), (10_000, 1_000_000), (1_000_000, 1_048_576)]
)
def test_a_page_has_room_for_the_largest_file_up_to_a_megabyte(rows: int, bytes_: int) -> None:
    """A text has 4 bytes more."""
    assert parquet_options(staged(rows, largest_row=96))["parquet.page.size"] == str(bytes_)


@pytest.mark.parametrize(
    ("columns", "without"),
    [(["text", "Über maß"], ["#text", "#Über maß"]), (["a.b"], [""]), (["a", "A"], [""])],
    ids=["by name", "a dot", "capitals"],
)
def test_columns_with_large_values_have_no_statistics(columns: list[str], without: list[str]) -> None:
    options = parquet_options(staged(1, large_values=[(name,) for name in columns]))
    prefix = "parquet.column.statistics.enabled"
    assert {name: value for name, value in options.items() if name.startswith(prefix)} == {
        f"{prefix}{name}": "false" for name in without
    }


# --- dictionaries ----------------------------------------------------------------------------------------------------

ROWS = 1_000


def _told(column: pa.Array, ids: list[int] | None = None) -> bool:
    groups = ids or [0] * len(column)
    found = without_dictionary(pa.table({"column": column}), pa.array(groups, pa.int32()))
    assert found in ([], ["column"])
    return bool(found)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([n % 500 for n in range(ROWS)], pa.int64()),
        pa.array([f"{n % 700:032}" for n in range(ROWS)]),
        pa.array([1.5] * ROWS, pa.float64()),
        pa.nulls(ROWS, pa.string()),
        pa.array([n % 2 == 0 for n in range(ROWS)]),  # Parquet has none for these anyway
        pa.array([[n] for n in range(ROWS)], pa.list_(pa.int64())),
        pa.array([{"n": n} for n in range(ROWS)], pa.struct({"n": pa.int64()})),
    ],
    ids=lambda column: str(column.type),
)
def test_other_columns_are_left_to_parquet(column: pa.Array) -> None:
    assert not _told(column)


def test_the_largest_file_decides() -> None:
    few_in_each = pa.array([n % 4 for n in range(ROWS)] + list(range(100)), pa.int64())
    assert not _told(few_in_each, [0] * ROWS + [1] * 100)


def test_so_many_rows_as_parquet_looks_at_decide() -> None:
    repeats_later = pa.array([n % 20_000 for n in range(400_000)], pa.int64())
    assert _told(repeats_later)
