"""``make demo-iceberg``: the demo with a table that DuckDB asks through an Iceberg catalog, and that Spark compacts."""

import sys

from dev import iceberg_duckdb, iceberg_spark
from dev.demo import LAKE, TABLE, PlainTable, demo, main, shown
from dev.iceberg_catalog import LocalIcebergCatalog

NAMESPACE = "demo"


class IcebergTable(PlainTable):
    """The demo's table in an Iceberg catalog."""

    asked_with = "DuckDB, through the catalog"
    source = f"lake.{NAMESPACE}.{TABLE.name}"

    def __init__(self, catalog: LocalIcebergCatalog) -> None:
        self._catalog = catalog
        self.servers = {"Catalog": f"{catalog.url}, the reference REST catalog of Iceberg"}
        self.settings = {
            "CATALOG_TYPE": "iceberg",
            "CATALOG_URL": catalog.url,
            "CATALOG_WAREHOUSE": catalog.warehouse,
            "CATALOG_NAMESPACE": NAMESPACE,
            # Several small batches, so that there is something to compact.
            "TARGET_FILE_MB": "0",
            "MAX_BUFFER_MB": "1",
        }

    def query(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in iceberg_duckdb.query(self._catalog, sql).to_pylist()]

    def compact(self) -> str:
        counted = iceberg_spark.compact(self._catalog, NAMESPACE, TABLE.name)
        before, after = counted["rewritten_data_files_count"], counted["added_data_files_count"]
        return f"{before} files into {after}, by Spark"

    def one_liner(self) -> str:
        newest = max((TABLE / "metadata").glob("*.metadata.json"))  # their names begin with a number
        return f'import polars; print(polars.scan_iceberg("{shown(newest)}").group_by("status").len().collect())'


def _demo() -> int:
    with LocalIcebergCatalog(LAKE.as_uri()) as catalog:
        return demo(IcebergTable(catalog))


if __name__ == "__main__":
    sys.exit(main(_demo))
