"""The rows of a table of an Iceberg catalog, as each engine reads them through the catalog.

All take the catalog, the namespace, the table, and for time travel the id of a snapshot. They return the rows sorted,
as dictionaries with values of Python.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from dev import iceberg_clickhouse, iceberg_duckdb, iceberg_spark
from dev.iceberg_catalog import IcebergServer

Rows = list[dict[str, Any]]
Reader = Callable[..., Rows]


def pyiceberg_catalog(catalog: IcebergServer) -> Catalog:
    return load_catalog("lake", **catalog.properties)


def read_with_duckdb(catalog: IcebergServer, namespace: str, table: str, snapshot: int | None = None) -> Rows:
    when = f" AT (VERSION => {snapshot})" if snapshot else ""
    return sorted_rows(iceberg_duckdb.query(catalog, f'FROM lake."{namespace}"."{table}"{when}'))


def read_with_spark(catalog: IcebergServer, namespace: str, table: str, snapshot: int | None = None) -> Rows:
    """For slow tests: it fetches a Spark of 460 MB, and takes half a minute."""
    when = f" VERSION AS OF {snapshot}" if snapshot else ""
    return sorted_rows(iceberg_spark.query(catalog, f"SELECT * FROM lake.`{namespace}`.`{table}`{when}"))  # noqa: S608


def read_with_pyiceberg(catalog: IcebergServer, namespace: str, table: str, snapshot: int | None = None) -> Rows:
    return sorted_rows(_table(catalog, namespace, table).scan(snapshot_id=snapshot).to_arrow())


def read_with_polars(catalog: IcebergServer, namespace: str, table: str, snapshot: int | None = None) -> Rows:
    scanned = pl.scan_iceberg(
        _table(catalog, namespace, table),
        snapshot_id=snapshot,
        storage_options=catalog.storage,
        reader_override="native",  # by default it lets PyIceberg read what it cannot
    )
    return sorted_rows(scanned.collect().to_arrow())


def read_with_clickhouse(catalog: IcebergServer, namespace: str, table: str, snapshot: int | None = None) -> Rows:
    rows = iceberg_clickhouse.query(catalog, namespace, table, snapshot).to_pylist(maps_as_pydicts="strict")
    return sorted_rows(pa.Table.from_pylist([{name: _text(value) for name, value in row.items()} for row in rows]))


def _text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _text(each) for name, each in value.items()}
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def sorted_rows(table: pa.Table) -> Rows:
    """The rows in an order that does not depend on the reader; times with a zone in UTC."""
    return sorted(
        ({name: _plain(value) for name, value in row.items()} for row in table.to_pylist(maps_as_pydicts="strict")),
        key=repr,
    )


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


def _table(catalog: IcebergServer, namespace: str, table: str) -> Table:
    loaded: Table = pyiceberg_catalog(catalog).load_table((namespace, table))
    return loaded
