"""An Iceberg table of files without field ids, as the engines read it through a REST catalog."""

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem
from pyiceberg.table import Table

from dev import iceberg_spark
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.minio import LocalMinio
from tests.support.iceberg_readers import (
    Reader,
    Rows,
    pyiceberg_catalog,
    read_with_clickhouse,
    read_with_duckdb,
    read_with_polars,
    read_with_pyiceberg,
    read_with_spark,
)
from tests.unit.parts.iceberg.iceberg_bench import IcebergBench, marks

TABLE = "sensors"
COLUMNS = pa.schema(
    {
        "n": pa.int64(),
        "place": pa.string(),
        "day": pa.string(),
        "temperature": pa.float64(),
        "price": pa.decimal128(12, 2),
        "seen": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "born": pa.date32(),
        "raw": pa.binary(),
        "levels": pa.list_(pa.int64()),
        "site": pa.struct({"floor": pa.int64(), "room": pa.string()}),
        "tags": pa.map_(pa.string(), pa.float64()),
    }
)
FULL = {
    "temperature": -1.5,
    "price": Decimal("-1234567890.12"),
    "seen": datetime(2025, 3, 30, 1, 2, 3, 456789, UTC),
    "local": datetime(2025, 3, 30, 1, 2, 3, 456789),
    "born": date(1969, 12, 31),
    "raw": b"\x00\xff",
    "levels": [1, None, -(2**62)],
    "site": {"floor": None, "room": "Saal Ü"},
    "tags": {"a": 0.5, "ü": None},
}
EMPTY = dict.fromkeys(FULL)
FIRST: Rows = [
    {"n": 1, "place": "Zürich / Süd", "day": "01", **FULL},
    {"n": 2, "place": "Zürich / Süd", "day": "01", **EMPTY},
]
SECOND: Rows = [{"n": 3, "place": None, "day": "02", **FULL}]
EVERY_DAY = (read_with_duckdb, read_with_pyiceberg, read_with_polars)


@pytest.fixture
def table(iceberg_catalog: LocalIcebergCatalog, s3_server: LocalMinio, bucket: str) -> Table:
    """A table with two snapshots of a file each."""
    client = pyiceberg_catalog(iceberg_catalog)
    namespace = f"n{uuid.uuid4().hex[:8]}"
    client.create_namespace(namespace)
    table: Table = client.create_table((namespace, TABLE), COLUMNS, location=f"s3://{bucket}/data/{TABLE}")
    with table.transaction() as change:
        with change.update_spec() as spec:
            spec.add_identity("place")
            spec.add_identity("day")
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    add(table, s3_server, "place=Z%C3%BCrich%20%2F%20S%C3%BCd/day=01", FIRST)
    add(table, s3_server, "place=__HIVE_DEFAULT_PARTITION__/day=02", SECOND)
    return table


def add(table: Table, server: LocalMinio, folder: str, rows: Rows) -> None:
    path = f"{table.location()}/{folder}/data.parquet"
    files = S3FileSystem(
        access_key=server.access_key, secret_key=server.secret_key, endpoint_override=server.endpoint_url
    )
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS), path.removeprefix("s3://"), filesystem=files)
    table.add_files([path])


@pytest.mark.parametrize("read", EVERY_DAY)
def test_all_rows_and_those_of_the_first_snapshot(
    iceberg_catalog: LocalIcebergCatalog, table: Table, read: Reader
) -> None:
    check(iceberg_catalog, table, read)


def test_clickhouse_reads_all_rows_and_those_of_the_first_snapshot(
    iceberg_catalog: LocalIcebergCatalog, table: Table
) -> None:
    """It has no null for lists and structures, no bytes beside texts, and a zone for each time."""

    def read(*of: Any) -> Rows:
        rows = read_with_clickhouse(*of)
        missing = {"levels": [], "site": {"floor": None, "room": None}, "tags": {"a": None, "ü": None}}
        for row in rows:
            row.update(dict.fromkeys(name for name, value in missing.items() if row[name] == value))
            row["local"] = row["local"] and row["local"].replace(tzinfo=None)
        return rows

    check(iceberg_catalog, table, read)


def test_spark_reads_and_compacts_it_and_the_others_read_it_afterwards(
    iceberg_catalog: LocalIcebergCatalog, table: Table
) -> None:
    check(iceberg_catalog, table, read_with_spark)

    namespace, _ = table.name()
    compacted = iceberg_spark.compact(iceberg_catalog, namespace, TABLE)

    assert compacted["rewritten_data_files_count"] == 2
    for read in EVERY_DAY:
        check(iceberg_catalog, table, read)


def test_all_read_what_comes_after_spark_has_changed_columns(
    iceberg_catalog: LocalIcebergCatalog, tmp_path: Path
) -> None:
    bench = IcebergBench(tmp_path, {"uri": iceberg_catalog.url}, f"n{uuid.uuid4().hex[:8]}", partition="größe")
    columns = {
        "temp": [1.5, None],
        "secret": ["hush", "hush"],
        "count": pa.array([1, 2], pa.int32()),
        "price": pa.array([Decimal("1.25"), None], pa.decimal128(8, 2)),
        "sites": pa.array(
            [[{"floor": 1, "code": 7}], [{"floor": 2, "code": 8}]],
            pa.list_(pa.struct({"floor": pa.int64(), "code": pa.int64()})),
        ),
        "rooms": pa.array(
            [{"x": {"seats": 3}}, {}], pa.map_(pa.string(), pa.struct({"seats": pa.int64(), "code": pa.int64()}))
        ),
    }
    member = bench.member()
    member.add_files([bench.file("one", columns, "groß")], "readings", marks(0))
    table = f"lake.{bench.namespace}.readings"
    changes = (
        "RENAME COLUMN temp TO temperature",
        "DROP COLUMN secret",
        "ALTER COLUMN count TYPE bigint",
        "ALTER COLUMN price TYPE decimal(30, 2)",
        "RENAME COLUMN sites.element.floor TO level",
        "DROP COLUMN sites.element.code",
        "RENAME COLUMN rooms.value.seats TO chairs",
        "DROP COLUMN rooms.value.code",
        "RENAME COLUMN `größe` TO `Größe des Orts`",
    )
    iceberg_spark.query(iceberg_catalog, ";".join(f"ALTER TABLE {table} {change}" for change in changes))
    member.add_files(
        [bench.file("two", columns, "klein"), bench.file("three", columns | {"n": [1, 2]}, None)], "readings", marks(1)
    )
    first = {
        "temperature": 1.5,
        "count": 1,
        "price": Decimal("1.25"),
        "sites": [{"level": 1}],
        "rooms": {"x": {"chairs": 3}},
    }
    second: dict[str, Any] = {"temperature": None, "count": 2, "price": None, "sites": [{"level": 2}], "rooms": {}}
    expected = [
        {"Größe des Orts": size, **row, "n": row["count"] if size is None else None}
        for size in ("groß", "klein", None)
        for row in (first, second)
    ]
    for read in (*EVERY_DAY, read_with_spark):
        assert read(iceberg_catalog, bench.namespace, "readings") == sorted(expected, key=repr), read


def test_a_namespace_of_levels_is_created_level_by_level(iceberg_catalog: LocalIcebergCatalog, tmp_path: Path) -> None:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    bench = IcebergBench(tmp_path, {"uri": iceberg_catalog.url}, f"{namespace}.b")
    for number in range(2):
        bench.member().add_files([bench.file(str(number), {"n": [number]})], "readings", marks(number))
    assert bench.table.name() == (namespace, "b", "readings")
    assert [row["n"] for row in bench.rows("n")] == [0, 1]


def check(catalog: LocalIcebergCatalog, table: Table, read: Reader) -> None:
    namespace, _ = table.name()
    assert read(catalog, namespace, TABLE) == FIRST + SECOND
    assert read(catalog, namespace, TABLE, table.snapshots()[0].snapshot_id) == FIRST
