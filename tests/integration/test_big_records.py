"""The largest records that the sink takes, as many as its buffer holds, through staging and Spark in its heap."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.config.memory import SMALLEST_CONTAINER_MB, MemoryPlan
from app.model import Row
from app.spark.writer import SparkWriter
from tests.services.spark import started_spark
from tests.support.batches import TP, batch_of, row, spec, stage, stager
from tests.support.environment import load

AROUND = 100  # bytes of a message beside its one long text


@pytest.fixture(
    scope="module",
    params=[
        {},
        {"Quix__Deployment__Limits__Memory": str(SMALLEST_CONTAINER_MB)},
        {"SPARK_DRIVER_MEMORY": "1g", "MAX_BUFFER_MB": "128"},
    ],
    ids=["default memory", "smallest container", "a larger heap"],
)
def plan(request: pytest.FixtureRequest) -> MemoryPlan:
    return load(**request.param).memory


@pytest.fixture(scope="module")
def writer(plan: MemoryPlan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWriter]:
    scratch = tmp_path_factory.mktemp("scratch")
    with started_spark(scratch, master="local[*]", heap_mb=plan.heap_mb, off_heap_mb=plan.off_heap_mb) as writer:
        yield writer


def text(size: int) -> str:
    return base64.b64encode(os.urandom(size * 3 // 4)).decode()


def write_and_read(writer: SparkWriter, rows: list[Row], *folders: str, scratch: Path) -> list[dict[int, str]]:
    """Per file the texts by their offsets."""
    path = scratch / "staged.parquet"
    staged = stage(stager(spec(*folders), metadata=["__offset"]), batch_of({TP: rows}), path)
    assert staged.file is not None
    assert staged.rejected == ()
    files = writer.write(staged.file, scratch / "out")
    tables = [pq.ParquetFile(file.path).read(["__offset", "text"]) for file in files]
    return [dict(zip(table["__offset"].to_pylist(), table["text"].to_pylist(), strict=True)) for table in tables]


def largest(plan: MemoryPlan, count: int) -> list[str]:
    return [text(plan.max_record_bytes - AROUND) for _ in range(count)]


def as_many_as_the_buffer_holds(plan: MemoryPlan, size: int) -> int:
    return plan.buffer_mb * 2**20 // size + 1  # the one that makes it full is still taken


@pytest.mark.parametrize("folders", [(), ("place",)], ids=["one file", "a folder for each"])
def test_a_buffer_full_of_the_largest_records(
    writer: SparkWriter, plan: MemoryPlan, tmp_path: Path, folders: tuple[str, ...]
) -> None:
    texts = largest(plan, as_many_as_the_buffer_holds(plan, plan.max_record_bytes))
    rows = [row({"place": offset, "text": each}, offset) for offset, each in enumerate(texts)]

    found = write_and_read(writer, rows, *folders, scratch=tmp_path)

    assert len(found) == (len(texts) if folders else 1)
    assert {offset: each for file in found for offset, each in file.items()} == dict(enumerate(texts))


def test_large_records_one_after_another_among_thousands_of_small_ones(
    writer: SparkWriter, plan: MemoryPlan, tmp_path: Path
) -> None:
    half = as_many_as_the_buffer_holds(plan, plan.max_record_bytes) // 2
    texts = ["small"] * 20_000 + largest(plan, half) + ["small"] * 20_000
    rows = [row({"text": each}, offset) for offset, each in enumerate(texts)]
    assert write_and_read(writer, rows, scratch=tmp_path) == [dict(enumerate(texts))]


def test_only_columns_with_large_values_are_without_bounds(writer: SparkWriter, tmp_path: Path) -> None:
    large = text(100_000)
    rows = [row({"a": n, "b": large, "über maß": large, "c": {"d": [large], "e": "x"}}, n) for n in range(3)]
    staged = stage(stager(spec()), batch_of({TP: rows}), tmp_path / "staged.parquet")
    assert staged.file is not None
    [file] = writer.write(staged.file, tmp_path / "out")

    group = pq.read_metadata(file.path).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    without = {column.path_in_schema for column in columns if column.statistics is None}
    assert without == {"b", "über maß", "c.d.list.element"}
    assert {"a", "c.e"} <= {
        column.path_in_schema for column in columns if column.statistics and column.statistics.has_min_max
    }
