"""An empty Iceberg table in a bucket, and its catalog in a SQLite file: what a user makes before a sink runs.

Written by hand after Iceberg's table specification, version 2: it is one JSON object and one row.
"""

import json
import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path

from dev.minio import LocalMinio

CATALOG, NAMESPACE, TABLE = "iceberg", "bench", "readings"
WAREHOUSE = "warehouse"
LOCATION = f"{WAREHOUSE}/{NAMESPACE}/{TABLE}"
COLUMNS = {
    "ts_ms": "timestamptz",
    "device": "string",
    "location": "string",
    "temperature": "double",
    "humidity": "double",
    "status": "string",
    "battery": "long",
    "seq": "long",
}
# The fewest partitions that hold what the Hive columns year, month, day and location do.
PARTITION = {"day": ("ts_ms", "day"), "location": ("location", "identity")}
FIRST_PARTITION_FIELD = 1_000  # so the specification
CATALOG_TABLE = """
CREATE TABLE iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
)
"""
# The table as rows of ``TOTALS_SQL``: the device is the key, and the folders' values follow from the time.
SOURCE = """(
SELECT device AS __key, location, strftime(time, '%Y') AS year, strftime(time, '%m') AS month,
       strftime(time, '%d') AS day, epoch_ms(ts_ms) AS ts_ms, seq, temperature, humidity, battery
FROM (SELECT *, make_timestamp(epoch_us(ts_ms)) AS time
      FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = false))
)"""


def create_table(minio: LocalMinio, bucket: str, catalog: Path) -> None:
    """Write the metadata of an empty table, and a catalog with it alone."""
    key = f"{LOCATION}/metadata/00000-{uuid.uuid4()}.metadata.json"
    minio.client().put_object(Bucket=bucket, Key=key, Body=json.dumps(_metadata(bucket)).encode())
    with closing(sqlite3.connect(catalog)) as database, database:
        database.execute(CATALOG_TABLE)
        row = (CATALOG, NAMESPACE, TABLE, f"s3://{bucket}/{key}")
        database.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, NULL)", row)


def _metadata(bucket: str) -> dict[str, object]:
    ids = {name: number for number, name in enumerate(COLUMNS, start=1)}
    fields = [{"id": ids[name], "name": name, "required": False, "type": kind} for name, kind in COLUMNS.items()]
    partition = [
        {"field-id": number, "source-id": ids[column], "name": name, "transform": transform}
        for number, (name, (column, transform)) in enumerate(PARTITION.items(), start=FIRST_PARTITION_FIELD)
    ]
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": f"s3://{bucket}/{LOCATION}",
        "last-sequence-number": 0,
        "last-updated-ms": int(time.time() * 1000),
        "last-column-id": len(COLUMNS),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": partition}],
        "default-spec-id": 0,
        "last-partition-id": FIRST_PARTITION_FIELD + len(PARTITION) - 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }
