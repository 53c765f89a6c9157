"""What is said in advance about dictionaries is what Parquet would have found out by itself."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model import BatchPart, OffsetRange, OutputFile, StagedFile, TopicPartition
from app.spark.launch import forget_java
from app.spark.parquet_options import without_dictionary
from app.spark.staged_file import write_staged
from app.spark.writer import SparkWriter
from tests.services.spark import new_spark_writer

ROWS = 30_000
TABLE = pa.table(
    {
        "Unique": pa.array(range(ROWS), pa.int64()),
        "fraction": pa.array([n / 7 for n in range(ROWS)], pa.float64()),
        "few": pa.array([n % 300 / 4 for n in range(ROWS)], pa.float64()),
        "a text": pa.array([f"{n:020}" for n in range(ROWS)]),
        "a.b": pa.array([f"{n:020}" for n in range(ROWS)]),
        "text": pa.array([f"sensor {n % 900}" for n in range(ROWS)]),
        "#": pa.array(range(ROWS), pa.int64()),
        "list": pa.array([[n] for n in range(ROWS)], pa.list_(pa.int64())),
        "moment": pa.array([n * 1_000_000 for n in range(ROWS)], pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[SparkWriter]:
    writer = new_spark_writer(tmp_path / "scratch")
    writer.start().result()
    yield writer
    writer.close()
    forget_java()


def _written(writer: SparkWriter, folder: Path, told: list[str]) -> pq.FileMetaData:
    folder.mkdir()
    part = BatchPart(OffsetRange(TopicPartition("t", 0), 0, ROWS), "0badcafe", 0)
    ids = pa.array([0] * ROWS, pa.int32())
    write_staged(TABLE.append_column("__file_group", ids), folder / "staged.parquet", told)
    staged = StagedFile(folder / "staged.parquet", "__file_group", (OutputFile((part,), {}, ROWS),))
    [file] = writer.write(staged, folder / "out")
    return pq.read_metadata(file.path)


def _with_dictionary(metadata: pq.FileMetaData) -> set[str]:
    columns = [metadata.row_group(0).column(index) for index in range(metadata.num_columns)]
    return {column.path_in_schema for column in columns if any("DICTIONARY" in each for each in column.encodings)}


def test_parquet_comes_to_the_same_by_itself(writer: SparkWriter, tmp_path: Path) -> None:
    ids = pa.array([0] * ROWS, pa.int32())
    told = without_dictionary(TABLE, ids)
    assert told == ["Unique", "fraction", "a text", "a.b", "#", "moment"]
    by_itself, as_told = (_written(writer, tmp_path / str(len(names)), names) for names in ([], told))
    assert _with_dictionary(by_itself) == _with_dictionary(as_told) == {"few", "text"}


def test_what_is_told_is_what_is_done(writer: SparkWriter, tmp_path: Path) -> None:
    told = _written(writer, tmp_path / "told", ["few", "Unique"])
    assert _with_dictionary(told) == {"text"}
