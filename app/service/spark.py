"""Makes the writer of Spark from the settings, for the connector and for the commands that write."""

from pathlib import Path

from app.config.settings import Settings
from app.spark.writer import SparkWriter


def new_spark_writer(settings: Settings, scratch: Path) -> SparkWriter:
    """A writer that is not started yet, with this private folder."""
    return SparkWriter(
        master=settings.spark_master,
        driver_memory=f"{settings.memory.heap_mb}m",
        scratch=scratch,
        compression=settings.parquet_compression,
        row_group_rows=settings.row_group_rows,
    )
