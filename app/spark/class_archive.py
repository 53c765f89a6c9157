"""Makes an archive of parsed classes, which halves the processor time of Spark's start.

    python -m app.spark.class_archive FILE

A run of the connector's own write makes Java load the classes, and Java writes the archive when it ends. From Java 25
on that is its ahead-of-time cache, before it a dynamic archive. Java checks an archive against itself, its jars and its
options, and starts without one that does not match. The image has an archive, named in ``SPARK_SUBMIT_OPTS``.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from app.errors import ConnectorError
from app.spark.java import Java, find_java
from app.spark.launch import JavaOutput, connect, start_java
from app.spark.session import spark_conf, use_scratch_file_system

_WITH_AOT_CACHE = 25  # the first Java that makes one in a single run


def archive_option(java: Java, archive: Path) -> str:
    return f"-XX:{'AOTCache' if java.release >= _WITH_AOT_CACHE else 'SharedArchiveFile'}={archive}"


def make(java: Java, archive: Path) -> None:
    """Makes an archive.

    Raises:
        ConnectorError: Java failed, or made none.
    """
    option = "AOTCacheOutput" if java.release >= _WITH_AOT_CACHE else "ArchiveClassesAtExit"
    with tempfile.TemporaryDirectory(prefix="quix-archive-") as folder:
        scratch = Path(folder)
        started = start_java(java, "512m", scratch, JavaOutput(sys.stderr.fileno()), [f"-XX:{option}={archive}"])
        SparkContext._ensure_initialized(gateway=connect(started))
        conf = SparkConf().setMaster("local[1]").setAppName("class-archive")
        conf.setAll(list(spark_conf(scratch, "snappy", 1_000_000, off_heap_mb=64).items()))
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        use_scratch_file_system(session)
        for compression in ("snappy", "zstd"):
            _write(session, scratch / compression, compression)
        session.stop()
        code = started.end()  # it writes the archive then
        if code != 0 or not archive.exists():
            raise ConnectorError("making an archive of classes", f"Java ended with code {code}")


def _write(session: SparkSession, folder: Path, compression: str) -> None:
    folder.mkdir()
    staged = folder / "staged.parquet"
    rows = range(1_000)
    columns = {"number": [*rows], "fraction": [i / 7 for i in rows], "text": [f"row {i}" for i in rows]}
    pq.write_table(pa.table({**columns, "group": [i % 4 for i in rows]}), staged)
    frame = session.read.parquet(str(staged))
    frame.write.partitionBy("group").option("compression", compression).parquet(str(folder / "out"))


if __name__ == "__main__":
    try:
        make(find_java(), Path(sys.argv[1]))
    except (ConnectorError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"ERROR: {sys.argv[1]}: {error}")
