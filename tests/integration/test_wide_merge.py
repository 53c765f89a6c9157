"""Merging files of a table with as many fields as one may have, in the heap that the connector sets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from app.parts.maintenance.removal import Removal
from app.parts.maintenance.spark_merge import Merge, Target, merge_session

pytestmark = pytest.mark.usefixtures("parsed_classes")

FIELDS = 5_000  # the default of COLUMN_LIMIT
TOO_EXACT = 2**53 + 1  # for a double
FIRST = {"f0": pa.float64()}
ALL = pa.struct({**FIRST, **{f"f{number}": pa.int64() for number in range(1, FIELDS)}})
FEW = pa.struct([*ALL][: FIELDS // 2])
OTHER_TYPE = pa.struct([("f0", pa.int64()), *list(FEW)[1:]])


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with merge_session("local[2]", "512m", tmp_path_factory.mktemp("scratch"), {}) as session:
        yield session


def merge(
    session: SparkSession, folder: Path, target: pa.DataType, files: Sequence[pa.Table], *erased: str
) -> list[dict[str, Any]]:
    """The rows of the merged file, in the order of their ids."""
    sources: dict[pa.Schema, list[str]] = {}
    for number, table in enumerate(files):
        pq.write_table(table, folder / f"{number}.parquet")
        sources.setdefault(table.schema, []).append(str(folder / f"{number}.parquet"))
    columns = {"id": pa.int64(), "o": target, "_rescued_data": pa.string()}
    merged = Merge(session, sources, Target(columns, "_rescued_data", "id"), {"place": "a"}, Removal(erased))
    left = sum(table.num_rows for table in files) - (merged.count_erased() if erased else 0)
    merged.write(str(folder / "out"), {})
    [out] = (folder / "out").glob("*.parquet")
    rows: list[dict[str, Any]] = pq.ParquetFile(out).read().to_pylist()
    assert len(rows) == left
    return rows


def rows_of(kind: pa.DataType, *rows: tuple[int, Any]) -> pa.Table:
    return pa.table({"id": [key for key, _ in rows], "o": pa.array([value for _, value in rows], kind)})


def test_objects_of_some_files_have_fewer_fields(session: SparkSession, tmp_path: Path) -> None:
    last = f"f{FIELDS - 1}"
    whole, part = rows_of(ALL, (1, {"f0": 0.5, last: 7}), (2, None)), rows_of(FEW, (3, {"f0": 1.5}), (4, None))

    rows = merge(session, tmp_path, ALL, [whole, part], f"o.{last} = 7", "id < 3")

    assert [(row["id"], row["o"] and row["o"]["f0"]) for row in rows] == [(2, None), (3, 1.5), (4, None)]
    assert rows[1]["o"].keys() == {field.name for field in ALL}


@pytest.mark.night
def test_one_field_of_many_had_another_type(session: SparkSession, tmp_path: Path) -> None:
    rows = merge(session, tmp_path, ALL, [rows_of(OTHER_TYPE, (1, {"f0": 2}), (2, {"f0": TOO_EXACT}))])

    assert [row["o"]["f0"] for row in rows] == [2.0, None]
    assert rows[1]["_rescued_data"] == f'{{"o":{{"f0":{TOO_EXACT}}}}}'


@pytest.mark.night
def test_a_list_s_objects_have_fewer_fields(session: SparkSession, tmp_path: Path) -> None:
    whole, part = rows_of(pa.list_(ALL), (1, [{"f0": 0.5}, None])), rows_of(pa.list_(FEW), (2, [{"f1": 1}]), (3, []))

    rows = merge(session, tmp_path, pa.list_(ALL), [whole, part], "id = 1")

    assert [(row["id"], len(row["o"])) for row in rows] == [(2, 1), (3, 0)]
    assert rows[0]["o"][0] == {field.name: None for field in ALL} | {"f1": 1}


def test_whether_an_object_is_there_does_not_depend_on_the_fields_of_its_file(
    session: SparkSession, tmp_path: Path
) -> None:
    """Spark reads of an object only the fields that a condition names, and this file has none of these."""
    kinds = pa.struct({"a": pa.int64(), "b": pa.int64()}), pa.struct({"a": pa.int64()})
    files = rows_of(kinds[0], (1, {"a": 1, "b": 2}), (2, {"a": 1})), rows_of(kinds[1], (3, {"a": 1}), (4, None))

    rows = merge(session, tmp_path, kinds[0], files, "o IS NOT NULL AND o.b IS NULL")

    assert [row["id"] for row in rows] == [1, 4]


@pytest.mark.night
def test_each_of_many_columns_may_have_another_type(session: SparkSession, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(FIELDS // 10)]
    before = pa.table({**{name: pa.array([1, TOO_EXACT]) for name in names}})
    pq.write_table(before, tmp_path / "0.parquet")
    target = Target({**dict.fromkeys(names, pa.float64()), "_rescued_data": pa.string()}, "_rescued_data")

    Merge(session, {before.schema: [str(tmp_path / "0.parquet")]}, target, {}).write(str(tmp_path / "out"), {})

    [out] = (tmp_path / "out").glob("*.parquet")
    first, second = pq.ParquetFile(out).read().to_pylist()
    assert first == {**dict.fromkeys(names, 1.0), "_rescued_data": None}
    assert second.pop("_rescued_data") == "{" + ",".join(f'"{name}":{TOO_EXACT}' for name in names) + "}"
    assert set(second.values()) == {None}
