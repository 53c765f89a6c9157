"""``erase --older-than`` of an Iceberg table: which partitions go, by one commit, whatever others commit."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException, ServiceUnavailableError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from app.model import DataFile
from app.parts.iceberg.entries import entries, map_names
from app.parts.iceberg.partitions import new_record, partitions
from app.parts.maintenance.record import keep_maintenance, last_maintenance
from app.table.layout import HIVE_NULL
from app.table.parquet_reader import schema_of
from app.table.schema import EMPTY, TableSchema
from app.table.schema_store import SchemaStore
from tests.support.commands import run_command
from tests.support.environment import local_settings
from tests.unit.parts.iceberg.iceberg_bench import ROOT, IcebergBench, commits
from tests.unit.parts.maintenance.lake import OtherClock

NOW = datetime.now(UTC)
COLUMNS = (("n", LongType()), ("at", TimestamptzType()), ("born", TimestamptzType()), ("place", StringType()))
TEXTS = tuple((name, StringType()) for name in ("year", "month", "day", "hour"))
Run = Callable[..., int]


class Bench(IcebergBench):
    """A table of any partitions, whose files pyiceberg writes."""

    def make(self, *partitions: tuple[str, str]) -> None:
        fields = [NestedField(number, name, kind) for number, (name, kind) in enumerate(COLUMNS + TEXTS, 1)]
        with self.create(Schema(*fields)).transaction() as transaction:
            map_names(transaction)
        self.partition_by(*partitions)

    def partition_by(self, *partitions: tuple[str, str]) -> None:
        with self.table.update_spec() as spec:
            for field in self.table.spec().fields:
                spec.remove_field(field.name)
            for column, transform in partitions:
                name = column if transform == "identity" else f"{column}_{transform}"
                spec.add_field(column, parse_transform(transform), name)

    def add(self, *rows: dict[str, Any]) -> None:
        """Commit a file for each row."""
        table = self.table
        with table.transaction() as transaction, transaction.update_snapshot().merge_append() as append:
            for row in rows:
                columns = pa.Table.from_pylist([row], schema_to_pyarrow(table.schema(), include_field_ids=False))
                values = {
                    each.name: row.get(each.source) or HIVE_NULL
                    if each.is_text_column
                    else each.texts(columns)[0].as_py()
                    for each in partitions(table.metadata)
                }
                path = Path(self.store.uri.removeprefix("file://"), ROOT, f"{uuid4()}.parquet")
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(columns, path)
                size, footer = path.stat().st_size, pq.read_metadata(path)
                file = DataFile(path.name, values, 1, size, path, NOW, footer, f"file://{path}")
                record = new_record(table.metadata)(values)
                for entry in entries(table.metadata, [(file, schema_of(file), record)]):
                    append.append_data_file(entry)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def run(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("app.parts.commands.find_tables.new_catalog", lambda *_: bench.new_member())
    monkeypatch.setattr("app.parts.iceberg.rewrite._LONGEST_PAUSE", 0.0)
    variables = {"CATALOG_TYPE": "iceberg", "CATALOG_URL": "http://127.0.0.1:1", "TIMESTAMP_AS": "at"}

    def erase(*arguments: str, age: str = "400d", **more: str) -> int:
        return run_command(local_settings(tmp_path, **variables | more), "erase", "--older-than", age, *arguments)

    return erase


def at(days: float) -> datetime:
    return NOW - timedelta(days=days)


def texts(moment: datetime, names: Sequence[str] = ("year", "month", "day", "hour")) -> dict[str, str]:
    formats = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H"}
    return {name: f"{moment:{formats[name]}}" for name in names}


def test_nothing_is_taken_out_by_a_clock_that_is_not_the_stores(
    bench: Bench, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make(("at", "day"))
    bench.add({"n": 1, "at": at(500)})
    monkeypatch.setattr("app.parts.commands.find_tables.new_store", lambda _: OtherClock(tmp_path, hours=-2))
    assert run() == 2
    assert bench.numbers() == [1]


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_partitions_of_a_transform_go_once_their_time_has_ended_so_long_ago(
    bench: Bench, run: Run, capsys: pytest.CaptureFixture[str], transform: str
) -> None:
    bench.make(("at", transform), ("place", "identity"))
    ages = (2_000, 1_000, 399, 0.0, -500)
    bench.add(*({"n": n, "at": at(days), "place": "a"} for n, days in enumerate(ages)), {"n": 9, "at": None})
    assert run("--dry-run") == 0
    assert "2 rows would be erased from 2 files in 2 partitions" in capsys.readouterr().out
    assert bench.numbers() == [0, 1, 2, 3, 4, 9]
    before = len(bench.table.snapshots())
    assert run() == 0
    assert bench.numbers() == [2, 3, 4, 9], "a partition that says no time stays"
    newest = bench.table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary.operation.value == "delete"
    assert len(bench.table.snapshots()) == before + 1
    done = last_maintenance(bench.store, ROOT).read()
    assert done
    assert (done.rows, done.age) == (2, 400 * 86_400)
    assert run() == 0
    assert len(bench.table.snapshots()) == before + 1


@pytest.mark.parametrize("names", [("year",), ("year", "month"), ("year", "month", "day"), tuple(texts(NOW))])
def test_partitions_of_text_columns_go_too(bench: Bench, run: Run, names: tuple[str, ...]) -> None:
    bench.make(*((name, "identity") for name in names))
    rows = [{"n": n, **texts(at(days), names)} for n, days in enumerate((2_000, 1_000, 399, -0.05, -500))]
    odd = {"n": 10, "year": "2019" if "month" in names else "x", "month": "13"}
    bench.add(*rows, {"n": 9}, odd, {"n": 11, "year": "2" * 5_000})
    assert run() == 0
    assert bench.numbers() == [2, 3, 4, 9, 10, 11]
    assert run(age="1m") == 0
    assert bench.numbers() == [3, 4, 9, 10, 11], "what is being written stays, whatever the age"


def test_former_partitions_count_as_they_were(bench: Bench, run: Run) -> None:
    bench.make(("place", "identity"))
    bench.add({"n": 0, "place": "a", "at": at(1_000)})
    bench.partition_by(("year", "identity"))
    bench.add({"n": 1, **texts(at(1_000))}, {"n": 2, **texts(NOW)})
    bench.partition_by(("at", "day"), ("n", "bucket[4]"))
    bench.add({"n": 3, "at": at(1_000), "place": "b"}, {"n": 4, "at": NOW, "place": "b"})
    assert run() == 0
    assert bench.numbers() == [0, 2, 4]


def test_a_partition_of_two_times_goes_once_both_have_ended(bench: Bench, run: Run) -> None:
    bench.make(("at", "day"), ("year", "identity"))
    times = [(1_000, 9_000), (1_000, 0), (0, 9_000)]
    bench.add(*({"n": n, "at": at(one), **texts(at(other), ["year"])} for n, (one, other) in enumerate(times)))
    assert run() == 0
    assert bench.numbers() == [1, 2]


def test_a_time_that_is_not_the_records_own_does_not_count(
    bench: Bench, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.make(("born", "year"))
    bench.add({"n": 0, "at": NOW, "born": at(9_000)})
    assert run() == 2
    assert "TIMESTAMP_COLUMN" in capsys.readouterr().err
    bench.partition_by(("at", "day"), ("born", "year"))
    rows = [(NOW, at(9_000)), (at(1_000), NOW), (at(1_000), at(9_000))]
    bench.add(*({"n": n, "at": seen, "born": born} for n, (seen, born) in enumerate(rows, 1)))
    with bench.table.update_schema() as schema:  # by an engine; records and files go on with the name that they have
        schema.rename_column("at", "seen")
    assert run() == 0
    assert bench.numbers() == [0, 1]
    assert run(TIMESTAMP_AS="", TIMESTAMP_COLUMN="born") == 0
    assert not bench.numbers()


@pytest.mark.parametrize(
    ("zone", "hours", "stays"),
    [("UTC", 6, False), ("Etc/GMT+12", 6, True), ("UTC", -6, True), ("Pacific/Kiritimati", -6, False)],
)
def test_text_columns_are_in_the_time_zone_of_the_table(
    bench: Bench, run: Run, zone: str, hours: int, stays: bool
) -> None:
    bench.make(*((name, "identity") for name in texts(NOW)))
    bench.add({"n": 0, **texts(NOW - timedelta(hours=hours))})
    assert run(age="1h", HIVE_COLUMNS="year,month,day,hour", TIME_ZONE=zone) == 0
    assert bench.numbers() == [0] * stays


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_another_time_zone_than_the_tables_is_refused(
    bench: Bench, run: Run, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    bench.make(*((name, "identity") for name in texts(NOW)))
    bench.add({"n": 0, **texts(NOW - timedelta(hours=12))})
    SchemaStore(bench.store, ROOT, {}, EMPTY, "Etc/GMT+12").extend(TableSchema({"n": pa.int64()}))
    assert run(*arguments, age="1h", HIVE_COLUMNS="year,month,day,hour") == 2
    assert "Set TIME_ZONE=Etc/GMT+12" in capsys.readouterr().err
    assert bench.numbers() == [0]


def test_more_of_the_table_than_it_may_have_is_refused(
    bench: Bench, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.make(("at", "day"))
    bench.add(*({"n": n, "at": at(days)} for n, days in enumerate((2_000, 1_000, 0))))
    assert run("--at-most", "50") == 2
    assert "67 % of the table's" in capsys.readouterr().err
    assert bench.numbers() == [0, 1, 2]
    assert run("--at-most", "70") == 0
    assert bench.numbers() == [2]


def test_a_table_without_partitions_of_a_time_says_so(
    bench: Bench, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_maintenance(bench.store, ROOT, begun=1)
    assert run() == 0, "the first batch makes it"
    bench.make(("place", "identity"))
    bench.add({"n": 0, "place": "a"})
    assert run() == 2
    assert "the table has no partitions by the time of its records" in capsys.readouterr().err


@pytest.mark.parametrize(
    "lost", [CommitFailedException("quicker"), ServiceUnavailableError("away"), ValueError("page")]
)
@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_what_others_commit_meanwhile_stays_and_a_lost_answer_is_no_second_commit(
    bench: Bench, run: Run, monkeypatch: pytest.MonkeyPatch, lost: Exception, is_done: bool
) -> None:
    bench.make(("at", "day"))
    bench.add({"n": 0, "at": at(1_000)}, {"n": 1, "at": NOW})

    def fail(count: int) -> None:
        if count == 1:
            bench.add({"n": 2, "at": at(1_000)}, {"n": 3, "at": NOW})
            raise lost

    commits(monkeypatch, **{"after" if is_done else "before": fail})
    assert run() == 0
    assert bench.numbers() == [1, 2, 3], "what came late goes with the next run"
    operations = [its.summary.operation.value for its in bench.table.snapshots() if its.summary]
    assert operations.count("delete") == 1
    assert run() == 0
    assert bench.numbers() == [1, 3]
