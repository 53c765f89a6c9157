"""Spark writes what was staged: every type, every column name, every row in its place and in its order."""

import gc
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import JavaObject

from app.errors import FatalError, RetryableError
from app.model import DataFile, OffsetRange, TopicPartition
from app.parts.quix.file_entries import column_stats
from app.service.formats import new_batch_limits
from app.spark.batch_offsets import read_batch_offsets
from app.spark.staged_file import StagedWriter
from app.spark.writer import SparkWriter
from app.timings import DEFAULT
from tests.services.spark import new_spark_writer, staged_file
from tests.support.environment import load
from tests.support.small_disk import small_disk

MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
NewWriter = Callable[..., SparkWriter]


@pytest.fixture(scope="module")
def new_writer(writer: SparkWriter) -> Iterator[NewWriter]:
    """Makes started writers on the Java process of ``writer``: its session takes over the compression of the latest."""
    made: list[SparkWriter] = []

    def new(scratch: Path, **changed: Any) -> SparkWriter:
        made.append(new_spark_writer(scratch, **changed))
        made[-1].start().result()
        return made[-1]

    yield new
    for each in made:
        each.close()


def _write(writer: SparkWriter, folder: Path, table: pa.Table, groups: list[int] | None = None) -> list[DataFile]:
    return writer.write(staged_file(folder, table, groups), folder / "out")


def _read(file: DataFile) -> pa.Table:
    return pq.ParquetFile(file.path).read()


TYPED = {
    "whole": pa.array([1, -(2**63), None], pa.int64()),
    "small": pa.array([1, 2, None], pa.int32()),
    "fraction": pa.array([0.1, float("nan"), None], pa.float64()),
    "single": pa.array([0.5, float("inf"), None], pa.float32()),
    "flag": pa.array([True, False, None], pa.bool_()),
    "text": pa.array(["a", "ü\n\x00😀", None], pa.string()),
    "bytes": pa.array([b"\x00\xff", b"", None], pa.binary()),
    "moment": pa.array([MOMENT, datetime(1969, 12, 31, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "wall_clock": pa.array([MOMENT.replace(tzinfo=None), datetime(1, 1, 1), None], pa.timestamp("us")),
    "day": pa.array([date(2024, 2, 29), date(1, 1, 1), None], pa.date32()),
    "price": pa.array([Decimal("12.34"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
    "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None]),
    "map": pa.array([{"a": 1.5, "b": None}, {}, None], pa.map_(pa.string(), pa.float64())),
    "structs": pa.array([[{"a": 1.5}], [None], None], pa.list_(pa.struct([("a", pa.float64())]))),
}


@pytest.mark.night
def test_java_gets_its_objects_back_where_nothing_else_collects(writer: SparkWriter, tmp_path: Path) -> None:
    def held() -> int:
        return sum(isinstance(each, JavaObject) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        counts = []
        for number in range(60):
            (tmp_path / str(number)).mkdir()
            _write(writer, tmp_path / str(number), pa.table({"n": [number]}))
            counts.append(held())
    finally:
        gc.enable()
    assert max(counts[40:]) <= max(counts[:20]) + 20, "of one write or two"


@pytest.mark.parametrize("name", ["a.b", "`", "A"])
def test_the_offsets_of_a_batch_are_in_the_footer_of_each_file(writer: SparkWriter, tmp_path: Path, name: str) -> None:
    offsets = (
        OffsetRange(TopicPartition("readings", 0), 0, 2**63 - 1),
        OffsetRange(TopicPartition("readings", 11), 7, 7),
    )
    table = pa.table({name: [3, 1, 2], "a": ["x", "y", "z"]})
    staged = replace(staged_file(tmp_path, table, [0, 1, 0]), offsets=offsets)

    files = writer.write(staged, tmp_path / "out")

    assert [_read(file).select(table.column_names).to_pydict() for file in files] == [
        {name: [3, 2], "a": ["x", "z"]},
        {name: [1], "a": ["y"]},
    ]
    assert [_read(file).column_names for file in files] == [table.column_names] * 2
    assert [read_batch_offsets(pq.read_metadata(file.path).metadata) for file in files] == [offsets] * 2


def test_columns_keep_their_types_and_values(writer: SparkWriter, tmp_path: Path) -> None:
    table = pa.table(TYPED)

    [file] = _write(writer, tmp_path, table)

    stored = _read(file)
    types = {name: str(stored.schema.field(name).type).replace(" ('map')", "") for name in stored.column_names}
    assert types == {name: str(column.type).replace("item:", "element:") for name, column in TYPED.items()}
    for name in TYPED:  # as text, for NaN is not equal to itself
        assert repr(stored[name].to_pylist()) == repr(table[name].to_pylist()), name
    of_spark = pq.read_metadata(file.path).metadata[b"org.apache.spark.sql.parquet.row.metadata"]
    assert b"kafka_offsets" not in of_spark, "the name of the file says them"


NAMES = ("temp (C)", "a.b", "a", "A", "ä;{},=`'\"\\\n\t", " padded ", "😀", "select", "__file_group_", "x" * 300)


def test_columns_keep_their_names(writer: SparkWriter, tmp_path: Path) -> None:
    table = pa.table({name: pa.array([i, i + 100]) for i, name in enumerate(NAMES)})
    nested = pa.array([{name: i for i, name in enumerate(NAMES)}, None])

    [file] = _write(writer, tmp_path, table.append_column("nested", nested))

    stored = _read(file)
    assert stored.column_names == [*NAMES, "nested"]
    assert [column.to_pylist() for column in stored.columns[:-1]] == [[i, i + 100] for i in range(len(NAMES))]
    assert stored["nested"].to_pylist() == [{name: i for i, name in enumerate(NAMES)}, None]


def test_many_files_are_written_in_several_jobs(
    writer: SparkWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("app.spark.writer._JOB_FILES", 3)
    table = pa.table({"n": range(1_000)})

    files = _write(writer, tmp_path, table, [n % 7 for n in range(1_000)])

    assert [_read(file).to_pydict() for file in files] == [{"n": [*range(first, 1_000, 7)]} for first in range(7)]


def test_a_job_that_is_late_fails_alone_and_java_goes_on(
    writer: SparkWriter, new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hurried = new_writer(tmp_path, job_seconds=10.0)
    monkeypatch.setattr("app.spark.writer._JOB_FILES", 100_000)  # which take more than ten seconds anywhere
    staged = staged_file(tmp_path, pa.table({"n": range(100_000)}), [*range(100_000)])

    with pytest.raises(RetryableError, match="it took longer than 10 s"):
        hurried.write(staged, tmp_path / "late")

    assert hurried.alive
    assert _read(_write(writer, tmp_path, pa.table({"n": [1]}))[0]).to_pydict() == {"n": [1]}


def test_every_group_becomes_one_file_with_its_rows_in_the_order_of_arrival(
    writer: SparkWriter, tmp_path: Path
) -> None:
    rows, groups = 100_000, 7
    ids = [(i * i + i // 11) % groups for i in range(rows)]
    ids[:groups] = range(groups)  # groups are numbered in the order they are first seen
    table = pa.table({"arrival": pa.array(range(rows), pa.int64()), "text": [f"row {i}" for i in range(rows)]})

    files = _write(writer, tmp_path, table, ids)

    assert [file.rows for file in files] == [ids.count(group) for group in range(groups)]
    for group, file in enumerate(files):
        stored = _read(file)
        assert stored.column_names == ["arrival", "text"]
        assert stored["arrival"].to_pylist() == [i for i in range(rows) if ids[i] == group]
        assert file.size == file.path.stat().st_size


@pytest.mark.parametrize("name", ["lap.time", "a `b`"])
def test_a_sort_column_orders_the_rows_of_each_file(writer: SparkWriter, tmp_path: Path, name: str) -> None:
    values = [7.5, None, float("nan"), -1.0, 3.0, 2.0, None, 9.0]
    staged = staged_file(tmp_path, pa.table({name: values, "arrival": range(8)}), [0, 0, 0, 0, 1, 1, 1, 1])

    first, second = writer.write(replace(staged, sort_column=name), tmp_path / "out")

    assert _read(first)["arrival"].to_pylist() == [3, 0, 2, 1], "NaN above all numbers, nulls last"
    assert _read(second)["arrival"].to_pylist() == [5, 4, 7, 6]
    assert repr(_read(first)[name].to_pylist()) == "[-1.0, 7.5, nan, None]"


def test_bounds_leave_out_no_number_that_a_reader_may_look_for(writer: SparkWriter, tmp_path: Path) -> None:
    nan = float("nan")
    table = pa.table(
        {
            "nan_first": [nan, 1.0, 2.0],
            "nan_last": pa.array([1.0, 2.0, nan], pa.float32()),
            "nan_alone": [nan, nan, nan],
            "infinite": [1.0, float("inf"), 2.0],
            "price": pa.array([Decimal("12.25"), None, Decimal("-0.50")], pa.decimal128(10, 2)),
            "moment": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
            "fraction": [0.5, 2.5, None],
        }
    )

    [file] = _write(writer, tmp_path, table)

    stats = column_stats(pq.read_metadata(file.path), None)
    assert {name: (found["min"], found["max"]) for name, found in stats.items()} == {
        "price": (-0.5, 12.25),
        "moment": (MOMENT.isoformat(), MOMENT.isoformat()),
        "fraction": (0.5, 2.5),
    }


@pytest.mark.parametrize(
    "compression", ["zstd", *(pytest.param(each, marks=pytest.mark.night) for each in ("snappy", "gzip", "none"))]
)
def test_files_are_compressed_as_asked_for_and_nothing_else_is_left(
    new_writer: NewWriter, tmp_path: Path, compression: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    writer = new_writer(scratch, compression=compression)
    before = sorted(scratch.iterdir())

    files = _write(writer, tmp_path, pa.table({"text": ["the same again"] * 1000}), [0, *[1] * 999])

    for file, count in zip(files, (1, 999), strict=True):
        column = pq.read_metadata(file.path).row_group(0).column(0)
        assert column.compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
        assert _read(file)["text"].to_pylist() == ["the same again"] * count
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted(written) == sorted(file.path for file in files), "no _SUCCESS, no checksums"
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o400 for path in written)
    assert sorted(scratch.iterdir()) == before, "no trace of the batch, nor of the one that warmed it up"
    assert not list(scratch.glob("warm-up*"))


def test_rows_that_do_not_match_what_was_staged_are_refused(writer: SparkWriter, tmp_path: Path) -> None:
    staged = staged_file(tmp_path, pa.table({"n": [1, 2, 3]}), [0, 1, 1])
    [first, second] = staged.groups
    wrong = replace(staged, groups=(first, replace(second, rows=3)))

    with pytest.raises(FatalError, match=r"3 rows of 1\.parquet became 1 files with 2 rows"):
        writer.write(wrong, tmp_path / "out")


def test_a_job_that_spark_refuses_says_why_in_one_line(writer: SparkWriter, tmp_path: Path) -> None:
    staged = staged_file(tmp_path, pa.table({"n": [1]}))
    (tmp_path / "out").write_text("in the way")

    with pytest.raises(FatalError) as refused:
        writer.write(staged, tmp_path / "out")

    assert "writing a batch with Spark" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "at org.apache" not in str(refused.value)
    assert writer.alive


def test_a_disk_that_fills_up_while_spark_writes_is_told_and_the_next_batch_finds_room(
    writer: SparkWriter, tmp_path: Path
) -> None:
    values = pa.array([os.urandom(1_000) for _ in range(4_000)])  # nothing that a codec makes smaller
    groups = [number % 2 for number in range(len(values))]
    staged = staged_file(tmp_path, pa.table({"n": range(len(values)), "v": values}), groups)
    full = pytest.raises(FatalError, match=r"No space left on device\. .*TMPDIR")
    with small_disk(tmp_path / "disk", 2) as disk, full:
        writer.write(staged, disk / "out")
    assert writer.alive
    files = writer.write(staged, tmp_path / "out")
    assert sorted(n for file in files for n in pq.read_table(file.path)["n"].to_pylist()) == list(range(len(values)))


@pytest.mark.night
@pytest.mark.parametrize("flags", [200, 0])
def test_rows_of_the_largest_batch_keep_their_order(writer: SparkWriter, tmp_path: Path, flags: int) -> None:
    """A sort that goes through the disk would not keep it.

    Flags take least on the way there, and most in the sort; of short rows it has the longest list.
    """
    limits = new_batch_limits(load(), DEFAULT, tmp_path)
    schema = pa.schema(
        [*((f"flag{n}", pa.bool_()) for n in range(flags)), ("number", pa.int64()), ("group", pa.int32())]
    )
    staged = StagedWriter(tmp_path / "staged.parquet", schema)
    rows, portion = 0, 2_000
    while staged.sort_bytes < limits.max_sort_bytes:
        numbers = pa.array(range(rows, rows + portion), pa.int64())
        groups = pc.bit_wise_and(numbers, pa.scalar(1, pa.int64())).cast(pa.int32())
        staged.append(pa.table([*[pa.array([True] * portion)] * flags, numbers, groups], schema=schema))
        rows += portion
    groups_of = (DataFile("data.parquet", {}, rows // 2),) * 2
    files = writer.write(staged.finish("group", groups_of), tmp_path / "out")
    for first, file in enumerate(files):
        assert pq.ParquetFile(file.path).read(["number"])["number"].to_pylist() == [*range(first, rows, 2)]
