"""What a staged file tells of its rows, so that Spark's heap can be kept from filling up."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model import StagedFile
from app.spark.staged_file import StagedWriter

GROUP = 4  # bytes of the group column


def told(folder: Path, columns: dict[str, Any]) -> StagedFile:
    path = folder / "staged.parquet"
    rows = len(next(iter(columns.values())))
    table = pa.table({**columns, "group": pa.array([0] * rows, pa.int32())})
    writer = StagedWriter(path, table.schema)
    writer.append(table)
    staged = writer.finish("group", ())
    assert pq.read_table(path).equals(table), "all rows as they were"
    return staged


@pytest.mark.parametrize(
    ("column", "size"),
    [
        (pa.array([1, None], pa.int64()), 8),
        (pa.array([True, None]), 1),
        (pa.array(["a", "ü" * 5, None]), 10),
        (pa.array([None], pa.string()), 0),
        (pa.array([[1, 2, 3], [], None], pa.list_(pa.int64())), 24),
        (pa.array([{"a": 1, "b": "four"}, None]), 12),
        (pa.array([[{"a": "four"}, {"a": "x"}]]), 8),
        (pa.array([{"four": 1, "b": 2}, None], pa.map_(pa.string(), pa.int64())), 24),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_it_tells_how_large_a_row_may_be(tmp_path: Path, column: pa.Array, size: int) -> None:
    assert told(tmp_path, {"v": column}).largest_row == size + GROUP


def test_one_large_value_among_many_small_ones_is_seen(tmp_path: Path) -> None:
    staged = told(tmp_path, {"v": pa.chunked_array([["x"] * 10_000, ["x" * 100_000], ["x"] * 10_000])})
    assert staged.largest_row == 100_000 + GROUP


LARGE, SMALL = "x" * 65_537, "x" * 65_536


@pytest.mark.parametrize(
    ("columns", "paths"),
    [
        ({"a": [LARGE, None], "b": [SMALL, "y"]}, [("a",)]),
        ({"a": [LARGE.encode(), b""]}, [("a",)]),
        ({"a": [[SMALL], [SMALL, LARGE]], "b": [[SMALL], [SMALL, SMALL]]}, [("a", "list", "element")]),
        ({"a": [{"b": LARGE, "c": SMALL}, None], "d": [1, 2]}, [("a", "b")]),
        ({"a": [[{"b": {"c.d": LARGE}}], []]}, [("a", "list", "element", "b", "c.d")]),
        ({"a": list(range(10_000))}, []),
    ],
    ids=["text", "bytes", "list", "struct", "nested", "numbers"],
)
def test_it_tells_which_columns_have_large_values(
    tmp_path: Path, columns: dict[str, Any], paths: list[tuple[str, ...]]
) -> None:
    assert told(tmp_path, columns).large_values == paths
