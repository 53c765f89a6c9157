"""What Parquet is told of the files that a batch becomes."""

from pathlib import Path

import pyarrow as pa
import pytest

from app.spark.parquet_options import parquet_options
from app.spark.staged_file import read_staged_schema, write_staged

TEXTS = pa.table({"text": pa.array(["x" * 96] * 10)})  # with its length, a row has 100 bytes


@pytest.fixture
def schema(tmp_path: Path) -> pa.Schema:
    write_staged(TEXTS, tmp_path / "staged.parquet")
    return read_staged_schema(tmp_path / "staged.parquet")


@pytest.mark.parametrize(
    ("rows", "bytes_"), [(1, 4_096), (45, 4_500), (1_000, 100_000), (10_000, 1_000_000), (1_000_000, 1_048_576)]
)
def test_a_page_has_room_for_the_largest_file_up_to_a_megabyte(schema: pa.Schema, rows: int, bytes_: int) -> None:
    assert parquet_options(schema, rows)["parquet.page.size"] == str(bytes_)


def test_a_file_that_tells_nothing_is_left_to_parquet() -> None:
    assert parquet_options(TEXTS.schema, 10) == {}


@pytest.mark.parametrize(
    ("columns", "without"),
    [
        (["text", "Über maß"], ["#text", "#Über maß"]),
        (["a.b"], [""]),
        (["a", "A"], [""]),
    ],
    ids=["by name", "a dot", "capitals"],
)
def test_columns_with_large_values_have_no_statistics(tmp_path: Path, columns: list[str], without: list[str]) -> None:
    write_staged(pa.table({"small": ["x"]} | {name: ["x" * 100_000] for name in columns}), tmp_path / "staged.parquet")
    options = parquet_options(read_staged_schema(tmp_path / "staged.parquet"), 1)
    prefix = "parquet.column.statistics.enabled"
    assert {name: value for name, value in options.items() if name.startswith(prefix)} == {
        f"{prefix}{name}": "false" for name in without
    }
