"""Spark for those who read what the connector wrote: with Spark's own settings, in the Java that the connector takes.

``SparkSession.builder`` alone would start ``spark-submit``, which wants a Java with more modules.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from app.spark.java import find_java
from app.spark.launch import connect, java_log, start_java

_ENDING_SECONDS = 30.0


@contextmanager
def reading_spark(folder: Path, *, master: str, heap: str = "512m", **settings: str) -> Iterator[SparkSession]:
    """A session as long as the block lasts; no other may be active in this process.

    Args:
        folder: a private one, for temporary files.
        master, heap: as Spark and Java write them.
        settings: of the session, with underscores for the dots of their names.
    """
    with java_log() as output:
        java = start_java(find_java(), heap, folder, output)
    SparkContext._ensure_initialized(gateway=connect(java))
    builder = SparkSession.builder.master(master).appName("reader").config("spark.ui.enabled", "false")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        java.end(_ENDING_SECONDS)
        forget_java()


def forget_java() -> None:
    """PySpark keeps one Java process for the whole life of Python; where that one is gone, let another be started."""
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None
