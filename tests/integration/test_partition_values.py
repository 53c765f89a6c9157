"""Odd values as folders: three readers give back the text that was written, whatever the value looks like."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from app.convert.partition_values import partition_columns
from app.model import BatchPart, OffsetRange, OutputFile, Row, StagedFile, TopicPartition
from app.spark.writer import SparkWriter
from app.table.layout import PartitionSpec, data_key, too_long
from app.table.null_folder import HIVE_NULL

PLAIN = (
    *(f"a{character}b" for character in "/=%:\\#?*\"'{}[]^ &+;,@!$()<>|~`-_."),
    *(f"a{chr(code)}b" for code in (1, 9, 10, 13, 27, 31, 127, 128, 0x2028)),
    *(
        "..",
        ".",
        " ",
        " padded ",
        "_hidden",
        ".hidden",
        "%2F",
        "%",
        "100%",
        "null",
        "None",
        "NULL",
        "nan",
        "007",
        "1e5",
    ),
    *("true", "2024-01-05", "x=1/y=2", "s3://bucket/key?x=1#y", "C:\\temp\\*", "münchen", "日本", "😀🚀", "e\u0301"),
    "v" * 253,
    "ü" * 126,
)
# What stands in the record → what the folder says.
CONVERTED: tuple[tuple[Any, str], ...] = (
    (True, "True"),
    (False, "False"),
    (1.0, "1.0"),
    (1.5, "1.5"),
    (1e300, "1e+300"),
    (-0.0, "-0.0"),
    (2**70, "1180591620717411303424"),
    (-7, "-7"),
    ([1, "a"], "[1, 'a']"),
    (b"\xff", "\\xff"),
)
NOTHING: tuple[dict[str, Any], ...] = ({}, {"x": None}, {"x": ""}, {"x": float("nan")}, {"x": HIVE_NULL})

Table = dict[int, str | None]
Reader = Callable[[Path], Table]


def _records() -> list[tuple[dict[str, Any], str | None]]:
    """Records of one mixed batch, and what a reader is to find as their ``x``."""
    plain: list[tuple[dict[str, Any], str | None]] = [({"x": value}, value) for value in PLAIN]
    converted: list[tuple[dict[str, Any], str | None]] = [({"x": value}, text) for value, text in CONVERTED]
    nothing: list[tuple[dict[str, Any], str | None]] = [(value, None) for value in NOTHING]
    return plain + converted + nothing


def _duckdb(table: Path) -> Table:
    source = f"read_parquet('{table}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
    return dict(duckdb.execute(f"select n, x from {source}").fetchall())  # noqa: S608 - a folder of this test


def _pyarrow(table: Path) -> Table:
    schema = pa.schema([("x", pa.string())])
    found = ds.dataset(table, partitioning=ds.partitioning(schema, flavor="hive"), format="parquet").to_table()
    return dict(zip(found["n"].to_pylist(), found["x"].to_pylist(), strict=True))


def _spark(table: Path) -> Table:
    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return {line["n"]: line["x"] for line in session.read.parquet(str(table)).select("n", "x").collect()}


@pytest.fixture(scope="module")
def table(writer: SparkWriter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a folder for each value, its files written by the connector's Spark."""
    folder = tmp_path_factory.mktemp("lake")
    spec = PartitionSpec(("x",), "ts_ms", HIVE_NULL)
    rows = [Row(value, None, 0, offset) for offset, (value, _) in enumerate(_records())]
    values = partition_columns(rows, spec)[0].to_pylist()
    staged = folder / "staged.parquet"
    numbers = pa.array(range(len(rows)), pa.int64())
    pq.write_table(pa.table({"n": numbers, "group": numbers.cast(pa.int32())}), staged)
    part = BatchPart(OffsetRange(TopicPartition("t", 0), 0, len(rows) - 1), "0a1b2c3d", 0)
    groups = tuple(OutputFile((part,), {"x": value}, 1) for value in values)
    for number, file in enumerate(writer.write(StagedFile(staged, "group", groups), folder / "out")):
        target = folder / data_key("table", file.group.partition_values, f"data_{number}.parquet")
        target.parent.mkdir(parents=True, exist_ok=True)
        file.path.rename(target)
    return folder / "table"


@pytest.mark.parametrize("read", [_duckdb, _spark, _pyarrow])
def test_the_text_read_is_the_text_written(table: Path, read: Reader) -> None:
    found = read(table)
    expected = {offset: text for offset, (_, text) in enumerate(_records())}
    assert {n: text for n, text in found.items() if text != expected[n]} == {}
    assert len(found) == len(expected)


def test_a_value_of_300_bytes_has_no_folder() -> None:
    assert too_long("table", {"x": "v" * 300}, "data_1.parquet") is not None
