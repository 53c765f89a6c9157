"""The index files of virtual partitions."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.parts.quix.virtual_index import write_index


def sidecar(folder: Path, columns: dict[str, Any], virtual: list[str], **values: str) -> pa.Table | None:
    data, path = folder / "data.parquet", folder / "sidecar.parquet"
    pq.write_table(pa.table(columns), data)
    written = write_index(data, virtual, values, path)
    assert path.exists() == written
    return pq.ParquetFile(path).read() if written else None


def rows(table: pa.Table | None) -> list[dict[str, Any]]:
    assert table is not None
    return sorted(table.to_pylist(), key=str)


def test_it_lists_which_values_occur_together_and_the_folder_s_own(tmp_path: Path) -> None:
    columns = {"driver": ["ann", "bob", "ann", None], "lap": [1, 2, 1, 2], "speed": [1.5, 2.5, 3.5, 4.5]}
    table = sidecar(tmp_path, columns, ["driver", "lap"], place="São Paulo/1", year="2024")
    folder = {"place": "São Paulo/1", "year": "2024"}
    assert rows(table) == [
        {"driver": "ann", "lap": 1, **folder},
        {"driver": "bob", "lap": 2, **folder},
        {"driver": None, "lap": 2, **folder},
    ]


def test_columns_keep_their_types_and_folders_are_strings(tmp_path: Path) -> None:
    table = sidecar(tmp_path, {"lap": pa.array([1], pa.int32())}, ["lap"], year="2024")
    assert table is not None
    assert table.schema.names == ["lap", "year"]
    assert table.schema.types == [pa.int32(), pa.string()]


def test_a_column_that_the_file_has_not_is_left_out(tmp_path: Path) -> None:
    assert rows(sidecar(tmp_path, {"lap": [1, 1]}, ["driver", "lap"])) == [{"lap": 1}]


@pytest.mark.parametrize("columns", [{"speed": [1.5]}, {"driver": [["ann"]]}, {"driver": [{"name": "ann"}]}])
def test_without_any_such_column_there_is_none(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert sidecar(tmp_path, columns, ["driver"]) is None


def test_a_name_with_a_dot_is_not_taken_for_a_field(tmp_path: Path) -> None:
    columns = {"a": [{"b": 1}, {"b": 2}], "a.b": ["x", "x"]}
    assert rows(sidecar(tmp_path, columns, ["a.b"])) == [{"a.b": "x"}]
