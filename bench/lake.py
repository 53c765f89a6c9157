"""Reads a table back from its bucket: by its files' footers, with DuckDB and with Spark."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.timeline import LandedFile
from bench.totals import TOTALS_SQL, Totals, WrongRowsError, differences, row_count, totals_of
from dev.lake import query
from dev.minio import LocalMinio
from dev.reading_spark import reading_spark

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectTypeDef

DOWNLOADS_AT_ONCE = 8
FIRST_DIFFERENCES = 5


def download(minio: LocalMinio, bucket: str, folder: Path) -> None:
    """Bring all objects of the bucket into the folder, under their keys and with the times that they came in."""
    client = minio.client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    objects = [item for page in pages for item in page.get("Contents", [])]
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        list(pool.map(lambda item: _download(client, bucket, item, folder), objects))


def _download(client: "S3Client", bucket: str, item: "ObjectTypeDef", folder: Path) -> None:
    path = folder / item["Key"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
    came_in = item["LastModified"].timestamp()
    os.utime(path, (came_in, came_in))


def landed_files(table: Path) -> list[LandedFile]:
    """The files of the table in the order in which they came in."""
    return sorted(landed_file(file) for file in table.rglob("*.parquet"))


def landed_file(file: Path) -> LandedFile:
    """What its footer and its time tell."""
    stat = file.stat()
    return LandedFile(stat.st_mtime, pq.read_metadata(file).num_rows, stat.st_size)


def hive_source(table: Path) -> str:
    """The table as a DuckDB source; partition values stay the text that the folders have."""
    return f"read_parquet('{table}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"


def duckdb_totals(source: str) -> Totals:
    """What DuckDB reads from a source that has the columns of ``TOTALS_SQL``."""
    return totals_of(query(TOTALS_SQL.format(source=source)))


def spark_totals(spark: SparkSession, table: Path) -> Totals:
    """What Spark reads; the session is one of ``reading_session``."""
    spark.read.parquet(str(table)).createOrReplaceTempView("lake")
    return totals_of(tuple(row) for row in spark.sql(TOTALS_SQL.format(source="lake")).collect())


@contextmanager
def reading_session(folder: Path) -> Iterator[SparkSession]:
    """A small Spark of our own; partition values stay the text that the folders have.

    Args:
        folder: gets what it writes by itself.
    """
    with reading_spark(
        folder,
        master="local[2]",
        heap="1g",
        spark_sql_warehouse_dir=str(folder / "warehouse"),
        spark_driver_bindAddress="127.0.0.1",
        spark_driver_host="127.0.0.1",
        spark_ui_showConsoleProgress="false",
        spark_sql_shuffle_partitions="2",
        spark_sql_sources_partitionColumnTypeInference_enabled="false",
    ) as session:
        yield session


def check_table(table: Path, expected: Totals, source: str | None = None) -> list[LandedFile]:
    """Compare footers and DuckDB's sums with what was produced.

    Args:
        table: the folder with the files.
        expected: what was produced.
        source: how DuckDB is to read them, if not as Hive partitions.

    Returns:
        The files.

    Raises:
        WrongRowsError: a row is missing, doubled, changed or in the wrong folder.
    """
    files = landed_files(table)
    rows = sum(file.rows for file in files)
    if not rows:
        raise WrongRowsError(f"no row in the lake, {row_count(expected):,} expected")
    wrong = differences(expected, duckdb_totals(source or hive_source(table)))
    if rows != row_count(expected) or wrong:
        raise WrongRowsError(
            f"{rows:,} rows in the lake by the files' footers, {row_count(expected):,} expected\n"
            + "\n".join(f"    {line}" for line in wrong[:FIRST_DIFFERENCES])
        )
    return files
