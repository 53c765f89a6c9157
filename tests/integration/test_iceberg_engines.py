"""An Iceberg table of files without field ids, as the engines read it through a REST catalog."""

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

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
    read_with_duckdb,
    read_with_polars,
    read_with_pyiceberg,
    read_with_spark,
)

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


def test_spark_reads_and_compacts_it_and_the_others_read_it_afterwards(
    iceberg_catalog: LocalIcebergCatalog, table: Table
) -> None:
    check(iceberg_catalog, table, read_with_spark)

    namespace, _ = table.name()
    compacted = iceberg_spark.compact(iceberg_catalog, namespace, TABLE)

    assert compacted["rewritten_data_files_count"] == 2
    for read in EVERY_DAY:
        check(iceberg_catalog, table, read)


def check(catalog: LocalIcebergCatalog, table: Table, read: Reader) -> None:
    namespace, _ = table.name()
    assert read(catalog, namespace, TABLE) == FIRST + SECOND
    assert read(catalog, namespace, TABLE, table.snapshots()[0].snapshot_id) == FIRST
