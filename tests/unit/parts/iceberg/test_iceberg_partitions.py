"""Partitions that are computed: each file has one value of each, and the table's metadata says which."""

import hashlib
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, IsNull, Reference
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.transforms import IDENTITY, parse_transform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from app.catalog.base import RestartError
from app.errors import ConfigError, FatalError
from app.model import DataFile
from app.parts.iceberg.table import IcebergTable
from app.table.layout import HIVE_NULL
from tests.fakes.arrow_writer import ArrowWriter
from tests.fakes.memory_schema import MemorySchema
from tests.support.batches import batch, spec, stage, stager
from tests.unit.parts.iceberg.iceberg_bench import ROOT, IcebergBench, marks

KINDS: dict[str, tuple[IcebergType, pa.DataType]] = {
    "n": (LongType(), pa.int64()),
    "i": (IntegerType(), pa.int32()),
    "ok": (BooleanType(), pa.bool_()),
    "price": (DecimalType(12, 2), pa.decimal128(12, 2)),
    "born": (DateType(), pa.date32()),
    "local": (TimestampType(), pa.timestamp("us")),
    "at": (TimestamptzType(), pa.timestamp("us", "UTC")),
    "name": (StringType(), pa.string()),
    "x": (DoubleType(), pa.float64()),
}
TYPES = {name: kind for name, (_, kind) in KINDS.items()}
FIELDS = [NestedField(1, "place", StringType(), required=False)]
FIELDS += [NestedField(number, name, kind, required=False) for number, (name, (kind, _)) in enumerate(KINDS.items(), 2)]
IDS = {field.name: field.field_id for field in FIELDS}

TIMES = [
    "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.999999",
    "2024-01-15T00:00:00",
    "2024-01-15T23:59:59.999999",
    "2024-02-01T00:00:00",
    "1969-12-31T23:59:59",
    "1950-03-01T05:00:00",
]
VALUES: dict[str, list[Any]] = {
    "n": [0, 1, -1, -17, 2**62, 16, -(2**63), 2**63 - 1],
    "i": [0, 3, -5],
    "ok": [True, False],
    "price": [Decimal(text) for text in ("1.25", "-0.01", "12.34", "12.30")],
    "born": ["2024-01-15", "1969-12-31", "1970-01-01"],
    "local": TIMES,
    "at": [f"{time}Z" for time in TIMES],
    "name": [
        "",
        "a",
        "Zürich / Süd",
        "Zürich West",
        "😀😀😀😀😀",
        "x" * 6_000,
        HIVE_NULL,
        f"{HIVE_NULL}_",
        "=",
        "null",
    ],
}
COMPUTED = [
    *(("n", each) for each in (IDENTITY, "truncate[10]", "bucket[8]")),
    *(("i", each) for each in (IDENTITY, "truncate[10]", "bucket[8]")),
    ("ok", IDENTITY),
    *(("price", each) for each in (IDENTITY, "bucket[8]")),
    *(("born", each) for each in (IDENTITY, "year", "month", "day", "bucket[8]")),
    *(("local", each) for each in (IDENTITY, "year", "month", "day", "hour", "bucket[8]")),
    *(("at", each) for each in (IDENTITY, "year", "month", "day", "hour", "bucket[8]")),
    *(("name", each) for each in ("truncate[4]", "truncate[99]", "bucket[8]")),
]


class Writing:
    """Batches through the connector's own steps, with pyarrow in Spark's place."""

    def __init__(self, bench: IcebergBench, member: IcebergTable, folder: Path, batches: int = 0) -> None:
        self.bench, self.member, self.folder = bench, member, folder
        known = member.table()
        assert known is not None
        self.known = known
        self.schema = MemorySchema()
        self.batches = batches

    def files(self, *rows: dict[str, Any]) -> list[DataFile]:
        """The files of a batch, in the store."""
        self.batches += 1
        folder = self.folder / f"batch-{self.batches}"
        folder.mkdir(parents=True)
        wanted = replace(spec(*self.known.partition_spec), keeps_columns=True)
        staging = stager(wanted, table_root=ROOT, schema=self.schema, types=TYPES, computed=self.known.computed)
        given = batch(*({"ts_ms": 1, **row} for row in rows), first=self.batches * 1_000)
        staged = stage(staging, given, folder / "staged.parquet", self.batches)
        assert staged.file
        assert not staged.rescued
        files = []
        for file in ArrowWriter().write(staged.file, folder / "out"):
            self.bench.store.upload(file.path, file.key)
            files.append(replace(file, footer=pq.read_metadata(file.path), uri=f"{self.bench.store.uri}/{file.key}"))
        return files

    def add(self, *rows: dict[str, Any]) -> None:
        self.member.add_files(self.files(*rows), "readings", marks(self.batches))


def field(number: int, column: str, transform: str) -> PartitionField:
    return PartitionField(IDS[column], 1000 + number, parse_transform(transform), f"of_{column}_{number}")


def continued(bench: IcebergBench, tmp_path: Path, *partitions: tuple[str, str]) -> Writing:
    """A table that somebody has made with these partitions, and a member that writes to it."""
    bench.create(Schema(*FIELDS), *(field(number, *each) for number, each in enumerate(partitions)))
    return Writing(bench, bench.member(), tmp_path / "batches")


def assert_each_file_has_its_values(bench: IcebergBench) -> None:
    """By the transforms of pyiceberg, from the rows that each file has."""
    table = bench.table
    names = {number: name for name, number in IDS.items()}
    for task in table.scan().plan_files():
        rows = pq.ParquetFile(task.file.file_path.removeprefix("file://")).read()
        for number, each in enumerate(table.specs()[task.file.spec_id].fields):
            name = names[each.source_id]
            kind = table.schema().find_type(each.source_id)
            column = rows[name] if name in rows.column_names else pa.nulls(len(rows))
            if pa.types.is_temporal(column.type):
                column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
            apply = each.transform.transform(kind)
            values = {as_java_has_it(apply(value)) for value in column.to_pylist()}
            assert values == {task.file.partition[number]}, each


def as_java_has_it(value: Any) -> Any:
    """The smallest number rounded down becomes one of the largest."""
    return value + 2**64 if isinstance(value, int) and value < -(2**63) else value


@pytest.mark.parametrize(("column", "transform"), COMPUTED)
def test_each_file_of_a_computed_partition_has_one_value(
    bench: IcebergBench, tmp_path: Path, column: str, transform: str
) -> None:
    writing = continued(bench, tmp_path, (column, transform))
    rows = [{column: value, "x": number} for number, value in enumerate([*VALUES[column], None])]
    writing.add(*rows)
    writing.add({"x": -1})  # a file without the column
    assert_each_file_has_its_values(bench)
    assert len(bench.rows("x")) == len(rows) + 1


def test_rows_are_found_by_the_columns_that_partitions_are_computed_from(bench: IcebergBench, tmp_path: Path) -> None:
    writing = continued(bench, tmp_path, *((column, "bucket[8]") for column in VALUES if column != "ok"))
    rows = [{column: value, "x": number} for column in VALUES for number, value in enumerate(VALUES[column])]
    writing.add(*rows)
    for column in VALUES:
        for row in bench.rows(column, "x"):
            term = Reference(column)
            wanted = IsNull(term=term) if row[column] is None else EqualTo(term=term, value=literal(row[column]))
            assert row in bench.table.scan(wanted, selected_fields=(column, "x")).to_arrow().to_pylist()


def literal(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def test_computed_and_plain_partitions_go_together(bench: IcebergBench, tmp_path: Path) -> None:
    writing = continued(
        bench,
        tmp_path,
        ("place", IDENTITY),
        ("at", "day"),
        ("n", "bucket[4]"),
        ("place", "bucket[2]"),
        ("name", "void"),
    )
    assert writing.known.partitions == ("place", "day(at)", "bucket(4,n)", "bucket(2,place)")
    rows = [
        {"place": place, "at": at, "n": n, "name": str(n)}
        for place in ("Rome", None)
        for at in (*VALUES["at"], None)
        for n in range(9)
    ]
    writing.add(*rows)
    assert_each_file_has_its_values(bench)
    assert len(bench.rows()) == len(rows)
    folders = {path.partition(ROOT)[2] for path in bench.table.inspect.files()["file_path"].to_pylist()}
    assert any(each.startswith("/place=Rome/at_day=2024-01-15/n_bucket_4=") for each in folders)


def test_two_fields_that_have_changed_their_names_are_not_mixed_up(bench: IcebergBench, tmp_path: Path) -> None:
    writing = continued(bench, tmp_path, ("n", "bucket[4]"), ("i", "bucket[4]"))
    on_their_way = [writing.files(*({"n": n, "i": n + 1} for n in range(9))) for _ in range(2)]
    with bench.table.update_spec() as change:
        change.rename_field("of_n_0", "other")
    with bench.table.update_spec() as change:
        change.rename_field("of_i_1", "of_n_0")
    for number, files in enumerate(on_their_way, 1):
        writing.member.add_files(files, "readings", marks(number))
    writing.add(*({"n": n, "i": n + 1} for n in range(9)))
    assert_each_file_has_its_values(bench)
    assert len(bench.rows()) == 27


def test_values_that_the_column_of_another_writer_does_not_take_are_told(bench: IcebergBench, tmp_path: Path) -> None:
    writing = continued(bench, tmp_path, ("at", "day"))
    with bench.table.update_schema() as change:
        change.add_column("since", TimestamptzType())
    with bench.table.update_spec() as change:
        change.add_field("since", parse_transform("day"), "since_day")
    writing.add({"n": 1})
    with pytest.raises(FatalError, match=r"day\(since\): the type in the records is string, .* column is timestamp"):
        writing.add({"since": "yesterday"})


# --- changed by an engine while files are written ---------------------------------------------------------------------


def test_files_that_are_on_their_way_keep_the_former_partitions_and_later_ones_have_the_new(
    bench: IcebergBench, tmp_path: Path
) -> None:
    writing = continued(bench, tmp_path, ("at", "month"))
    writing.add({"at": "2024-01-15T00:00:00Z", "n": 1})
    days = [f"2024-02-0{day}T00:00:00Z" for day in (1, 2, 3)]
    on_their_way = [writing.files(*({"at": at, "n": 2} for at in days)) for _ in range(2)]
    with bench.table.update_spec() as change:
        change.remove_field("of_at_0")
        change.add_field("at", parse_transform("day"), "at_day")
        change.add_field("n", parse_transform("bucket[4]"), "n_bucket")
    for number, files in enumerate(on_their_way, 2):
        writing.member.add_files(files, "readings", marks(number))
    writing.add(*({"at": at, "n": 3} for at in days))
    assert_each_file_has_its_values(bench)
    assert sorted(task.file.spec_id for task in bench.table.scan().plan_files()) == [0, 0, 0, 1, 1, 1]
    assert len(bench.rows()) == 10


def test_a_new_text_column_among_the_partitions_is_followed_by_a_restart(bench: IcebergBench, tmp_path: Path) -> None:
    writing = continued(bench, tmp_path, ("at", "day"))
    writing.add({"at": "2024-01-15T00:00:00Z", "place": "Rome"})
    with bench.table.update_spec() as change:
        change.add_identity("place")
    with pytest.raises(RestartError, match="it is now partitioned by place"):
        writing.add({"at": "2024-01-16T00:00:00Z", "place": "Oslo"})
    Writing(bench, bench.member(), tmp_path / "next", 2).add({"at": "2024-01-17T00:00:00Z", "place": "Bern"})
    assert_each_file_has_its_values(bench)
    assert [row["place"] for row in bench.rows("place")] == ["Bern", "Oslo", "Rome"]


def test_a_column_that_gets_more_digits_has_right_values(bench: IcebergBench, tmp_path: Path) -> None:
    fields = [
        NestedField(1, "n", IntegerType(), required=False),
        NestedField(2, "price", DecimalType(4, 2), required=False),
    ]
    bench.create(
        Schema(*fields),
        PartitionField(1, 1000, parse_transform("bucket[4]"), "a"),
        PartitionField(2, 1001, parse_transform(IDENTITY), "b"),
    )
    Writing(bench, bench.member(), tmp_path / "batches").add(
        *({"n": n, "price": Decimal(price)} for n in (7, 2**40) for price in ("1.25", "1234567.25"))
    )
    for n in (7, 2**40):
        assert bench.table.scan(f"n == {n}").to_arrow().num_rows == 2


def test_no_value_looks_like_the_hash_of_another(bench: IcebergBench, tmp_path: Path) -> None:
    writing = continued(bench, tmp_path, ("name", "truncate[50]"))
    hashed = hashlib.sha256(b"=" + b"x" * 45).hexdigest()[:40]
    writing.add({"name": "x" * 45}, {"name": hashed})
    assert sorted(row["name"] for row in bench.rows("name")) == sorted(["x" * 45, hashed])


# --- new tables -------------------------------------------------------------------------------------------------------


def test_a_new_table_gets_its_transforms(bench: IcebergBench, tmp_path: Path) -> None:
    transforms = [("day", "at", TYPES["at"]), ("bucket[4]", "größe", pa.string()), ("truncate[2]", "name", pa.string())]
    member = bench.new_member(transforms=transforms)
    assert member.check() is None
    created = member.create_table(f"{bench.store.uri}/{ROOT}", spec("place"))
    assert created.partition_spec == ("place",)
    assert created.partitions == ("place", "day(at)", "bucket(4,größe)", "truncate(2,name)")
    names = [each.name for each in bench.table.spec().fields]
    assert names == ["place", "at_day", "gr_xf6_xdfe_bucket_4", "name_truncate_2"]
    Writing(bench, member, tmp_path / "batches").add(
        {"place": "Rome", "at": "2024-01-15T00:00:00Z", "größe": "L", "name": "Anna"}
    )
    [path] = bench.table.inspect.files()["file_path"].to_pylist()
    assert "/place=Rome/at_day=2024-01-15/größe_bucket_4=" in path


@pytest.mark.parametrize(
    ("column", "transforms", "why"),
    [
        ("born", ["hour"], "born"),
        ("n", ["day"], "n"),
        ("x", ["bucket[4]"], "x"),
        ("at", ["truncate[2]"], "at"),
        ("price", ["truncate[2]"], "price"),
        ("at", ["day", "hour"], "several times of at"),
    ],
)
def test_transforms_that_do_not_fit_their_column_are_refused_before_the_table_is_made(
    bench: IcebergBench, column: str, transforms: list[str], why: str
) -> None:
    member = bench.new_member(transforms=[(each, column, TYPES[column]) for each in transforms])
    with pytest.raises(ConfigError, match=f"{why}.* HIVE_COLUMNS"):
        member.check()


def test_only_a_new_table_needs_the_types_of_its_transforms_from_the_settings(
    bench: IcebergBench, tmp_path: Path
) -> None:
    member = bench.new_member(transforms=[("bucket[4]", "n", None)])
    with pytest.raises(ConfigError, match=r"bucket\[4\] needs the type of n\. .*COLUMN_TYPES"):
        member.check()
    continued(bench, tmp_path, ("n", "bucket[4]"))
    known = bench.new_member(transforms=[("bucket[4]", "n", None)]).check()
    assert known is not None
    assert known.partitions == ("bucket(4,n)",)


TEXTS = [NestedField(number, name, StringType(), required=False) for number, name in enumerate(("a", "a_bucket_4"), 1)]
CITY = StructType(NestedField(2, "city", StringType(), required=False))
UNKNOWN = r"is partitioned by .*which this connector cannot write"


@pytest.mark.parametrize(
    ("columns", "partitions", "why"),
    [
        (FIELDS, [field(0, "x", IDENTITY)], UNKNOWN),
        (FIELDS, [field(0, "price", "truncate[2]")], UNKNOWN),
        (FIELDS, [field(0, "n", "zorder")], UNKNOWN),
        (
            [NestedField(1, "p", CITY, required=False)],
            [PartitionField(2, 1000, parse_transform("bucket[4]"), "of_city")],
            "it is partitioned by of_city, whose source is not a column of the files",
        ),
        (
            TEXTS,
            [
                PartitionField(n, 999 + n, parse_transform(each), f"p{n}")
                for n, each in ((1, "bucket[4]"), (2, IDENTITY))
            ],
            "it has two partitions whose folders would be a_bucket_4=…",
        ),
        ([NestedField(1, "place", StringType(), required=True)], [], "requires values in place"),
    ],
    ids=["x", "price", "n", "a part of a column", "the same folders", "a required column"],
)
def test_a_table_that_cannot_be_written_is_refused_at_the_start(
    bench: IcebergBench, columns: list[NestedField], partitions: list[PartitionField], why: str
) -> None:
    bench.create(Schema(*columns), *partitions)
    with pytest.raises(ConfigError, match=why):
        bench.member()
