"""What is said in advance about dictionaries is what Parquet would have found out by itself."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.spark.options import without_dictionary
from app.spark.writer import SparkWriter
from tests.services.spark import staged_file

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


def _written(writer: SparkWriter, folder: Path, told: list[str]) -> pq.FileMetaData:
    folder.mkdir()
    [file] = writer.write(staged_file(folder, TABLE, without_dictionary=told), folder / "out")
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
