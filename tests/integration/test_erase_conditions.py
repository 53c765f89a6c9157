"""Spark as ``compact`` and ``erase`` use it: which conditions it takes, and that no file names code to it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from app.errors import FatalError
from app.parts.maintenance.removal import Removal
from app.parts.maintenance.spark_merge import Merge, Target, may_match, merge_session
from tests.support.newest import newest, random_rows

pytestmark = pytest.mark.usefixtures("parsed_classes")

KEYS = (["device"], ["device", "kind", "place"])
COLUMNS = {"n": pa.int64(), "text": pa.string(), "at": pa.timestamp("us", "UTC"), "tags": pa.list_(pa.string())}
REFUSED = r"only uses? the values of a row"
TARGET = Target({**COLUMNS, "_rescued_data": pa.string()}, "_rescued_data")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with merge_session("local[1]", "512m", tmp_path_factory.mktemp("scratch"), {}) as session:
        session.udf.register("mine", str.upper)
        yield session


@pytest.mark.parametrize(
    "condition",
    [
        "reflect('java.lang.System', 'setProperty', 'erased', 'yes') = 'x'",
        "system.builtin.`reflect`('java.lang.System', 'setProperty', 'erased', 'yes') = 'x'",
        "IDENTIFIER('ref' || 'lect')('java.lang.System', 'setProperty', 'erased', 'yes') = 'x'",
        "exists(tags, tag -> java_method('java.lang.System', 'setProperty', 'erased', tag) = 'x')",
        "try_reflect('java.lang.System', 'setProperty', 'erased', 'yes') = 'x'",
        "mine(text) = 'x'",
        "exists (SELECT 1 FROM text.`/etc/hostname`)",
        "n IN (SELECT 1)",
        "(SELECT max(value) FROM text.`/etc/hostname`) = 'x'",
        "from_protobuf(binary(text), 'm', '/etc/hostname') IS NULL",
        "from_xml(text, 'a int', map('rowValidationXSDPath', '/etc/hostname')).a = 1",
        "current_user() = 'x'",
    ],
)
def test_a_condition_that_takes_more_than_the_values_of_a_row_is_refused(
    session: SparkSession, tmp_path: Path, condition: str
) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1], "text": ["x"], "tags": [["yes"]]}), file)

    with pytest.raises(ValueError, match=REFUSED):
        may_match(session, [{"place": "a"}], [condition], COLUMNS)
    with pytest.raises(ValueError, match=REFUSED):
        Merge(session, {pq.read_schema(file): [str(file)]}, TARGET, {"place": "a"}, Removal([condition])).count_erased()

    jvm: Any = session._jvm
    assert jvm.java.lang.System.getProperty("erased") is None


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("place = 'a' AND year(at) = 2024", "abc"),
        ("place IN ('a', 'c') OR n BETWEEN 1 AND 3", "abc"),
        ("lower(text) RLIKE '^x' AND exists(tags, tag -> tag = 'y')", "abc"),
        ("upper(place) <> 'A'", "bc"),
        ("at < timestamp'2024-01-01' AND CASE WHEN n > 1 THEN true ELSE false END", "abc"),
        ("'${env:PATH}' = concat('$', '{env:PATH}') AND place = 'b'", "b"),
    ],
)
def test_any_other_condition_is_taken(session: SparkSession, condition: str, places: str) -> None:
    found = may_match(session, [{"place": place} for place in "abc"], [condition], COLUMNS)
    assert [place for place, may in zip("abc", found, strict=True) if may] == [*places]
    assert may_match(session, [{"1": each} for each in "ab"], ["`1` = 'b'"], COLUMNS) == [False, True]


def test_a_column_may_have_the_name_of_a_function(session: SparkSession) -> None:
    """``user`` without brackets is a function too, whose value is the process's user."""
    columns = {**COLUMNS, "user": pa.string(), "current_date": pa.date32()}
    for condition in ("user = 'u1'", "lower(`user`) LIKE 'u%'", "current_date < date'2024-01-01'"):
        assert may_match(session, [{"place": "a"}, {"place": "b"}], [condition], columns) == [True, True]
    with pytest.raises(ValueError, match="at random"):
        may_match(session, [{"place": "a"}], ["user = 'u1'"], COLUMNS)


@pytest.mark.parametrize("condition", ["n = 5 bogus", "text = 'x' and", "place = 'a' AS b"])
def test_a_word_behind_a_condition_is_refused(session: SparkSession, condition: str) -> None:
    with pytest.raises(ValueError, match="belongs to no operator"):
        may_match(session, [{"place": "a"}], [condition], COLUMNS)


def test_a_file_does_not_name_a_module_to_import(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_by_a_file.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    kind = {"type": "udt", "pyClass": "named_by_a_file.Kind", "serializedClass": "", "sqlType": "long"}
    fields = [{"name": "n", "type": kind, "nullable": True, "metadata": {}}]
    metadata = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": fields})}
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}).replace_schema_metadata(metadata), file)

    with pytest.raises(FatalError, match="has a user-defined type"):
        Merge(session, {pa.schema({"n": pa.int32()}): [str(file)]}, TARGET, {"place": "a"})

    assert "named_by_a_file" not in sys.modules


@pytest.mark.parametrize("conditions", [(), ("op = 'd'",)], ids=str)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_the_newest_rows_are_those_of_a_comparison_of_each_row_with_each_other(
    session: SparkSession, tmp_path: Path, key: list[str], conditions: tuple[str, ...]
) -> None:
    rows = random_rows(7, 300)
    rows = rows.append_column("_" * 11 + "3", rows["n"])  # without this column, the query would add one of this name
    paths = [str(tmp_path / f"{number}.parquet") for number in range(3)]
    for number, path in enumerate(paths):
        pq.write_table(rows.slice(number * 100, 100), path)
    columns = {**{field.name: field.type for field in rows.schema}, "_rescued_data": pa.string()}
    merge = Merge(
        session, {rows.schema: paths}, Target(columns, "_rescued_data", "n"), {"place": "a"}, Removal(conditions, key)
    )

    removed = merge.count_erased()
    merge.write(str(tmp_path / "out"), {})

    [out] = (tmp_path / "out").glob("*.parquet")
    wanted = newest([{**row, "place": "a"} for row in rows.to_pylist()], key, "d" if conditions else None)
    assert pq.read_table(out)["_" * 11 + "3"].to_pylist() == [row["n"] for row in wanted]
    assert removed == len(rows) - len(wanted)
