"""Every row counted: what goes in comes out, whatever the batch size and the number of partitions."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.lake import duckdb_totals, landed_files, reading_session, spark_totals
from bench.run import run_ours
from bench.stage import Stage
from bench.totals import Totals, differences, row_count

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
            few = stage.fill_topic(FEW_ROWS, partitions)
            many = stage.fill_topic(min(MANY_ROWS, most_rows), partitions)
            for topic, batch_size in ((few, 1), (many, 1_000), (many, 100_000)):
                place = stage.new_place("rows", topic, batch_size)
                comparison = _Comparison(spark)
                files = run_ours(stage, place, comparison.check).run.files
                yield RowCheck(
                    partitions=partitions,
                    batch_size=batch_size,
                    rows=topic.messages,
                    files=files,
                    footers=comparison.footers,
                    duckdb=comparison.duckdb,
                    spark=comparison.spark,
                )


class _Comparison:
    """Takes down what each reader sees instead of ending the benchmark at the first difference."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.footers = self.duckdb = self.spark = False

    def check(self, table: Path, expected: Totals) -> None:
        self.footers = sum(file.rows for file in landed_files(table)) == row_count(expected)
        self.duckdb = not differences(expected, duckdb_totals(table))
        self.spark = not differences(expected, spark_totals(self._spark, table))
