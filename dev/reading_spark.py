"""Spark for those who read what the connector wrote: with Spark's own settings, in the Java that the connector takes.

``SparkSession.builder`` alone would start ``spark-submit``, which wants a Java with more modules.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from app.spark.java_process import only_java


@contextmanager
def reading_spark(folder: Path, *, master: str, heap: str = "512m", **settings: str) -> Iterator[SparkSession]:
    """A session as long as the block lasts; no other may be active in this process.

    Args:
        folder: a private one, for temporary files.
        master, heap: as Spark and Java write them.
        settings: of the session, with underscores for the dots of their names.
    """
    builder = SparkSession.builder.master(master).appName("reader").config("spark.ui.enabled", "false")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    with only_java(heap, folder):
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
