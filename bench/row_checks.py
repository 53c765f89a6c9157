"""Every row counted: what goes in comes out, whatever the batch size and the number of partitions."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.lake import download, duckdb_totals, hive_source, landed_files, reading_session, spark_totals
from bench.messages import Workload
from bench.run import wait_for_rows
from bench.sinks.base import table_in
from bench.sinks.connector import ConnectorSink
from bench.stage import Stage, Topic
from bench.totals import differences, row_count

PARTITIONS = (1, 3)
FEW_ROWS = 300  # for a batch size of 1
MANY_ROWS = 250_000


@dataclass(frozen=True, slots=True)
class RowCheck:
    """One run of the connector, and whether its rows came out as they went in.

    Attributes:
        footers: whether the files' footers count as many rows as were produced.
        duckdb, spark: whether what they read has the same count and sums, per key and Hive partition.
    """

    partitions: int
    batch_size: int
    rows: int
    files: int
    footers: bool
    duckdb: bool
    spark: bool

    @property
    def passed(self) -> bool:
        return self.footers and self.duckdb and self.spark


def check_rows(stage: Stage, most_rows: int) -> Iterator[RowCheck]:
    """Yield a check for each number of partitions and each batch size, with at most ``most_rows`` rows."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, reading_session(Path(folder)) as spark:
        for partitions in PARTITIONS:
            few = stage.topic(Workload(FEW_ROWS, partitions))
            many = stage.topic(Workload(min(MANY_ROWS, most_rows), partitions))
            for topic, batch_size in ((few, 1), (many, 1_000), (many, 100_000)):
                yield _check(stage, topic, batch_size, spark)


def _check(stage: Stage, topic: Topic, batch_size: int, spark: SparkSession) -> RowCheck:
    sink = ConnectorSink("rows", "this connector", {"BATCH_SIZE": str(batch_size), "COMMIT_INTERVAL": "5"})
    with stage.place(sink.name, topic) as place:
        with sink.start(stage, place) as processes:
            wait_for_rows(sink, stage, place, processes, topic.messages)
        folder = place.folder / "lake"
        download(stage.minio, place.name, folder)
        table = table_in(folder)
        files = landed_files(table)
        return RowCheck(
            partitions=topic.partitions,
            batch_size=batch_size,
            rows=topic.messages,
            files=len(files),
            footers=sum(file.rows for file in files) == row_count(topic.expected),
            duckdb=not differences(topic.expected, duckdb_totals(hive_source(table))),
            spark=not differences(topic.expected, spark_totals(spark, table)),
        )
