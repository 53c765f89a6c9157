"""Write the archive of parsed Java classes that the image starts Spark with.

A run of the connector's own write makes Java load the classes it needs; Java dumps them when it ends (dynamic class
data sharing). Measured on one core, the archive halves the time until Spark is ready, from 13 s to 7 s, and saves
40 MB of memory. Java checks the archive against its jars and goes on without it when they do not match.
"""

import os
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from app.spark.jvm import spark_conf, use_scratch_file_system

_OPTIONS = "SPARK_SUBMIT_OPTS"  # Spark's launcher adds them to the command line of its Java process


def main(archive: Path) -> None:
    os.environ[_OPTIONS] = f"{os.environ.get(_OPTIONS, '')} -XX:ArchiveClassesAtExit={archive}"
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        builder = SparkSession.builder.master("local[1]").appName("class-archive")
        for name, value in spark_conf(scratch, "512m", "snappy", 1_000_000).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        use_scratch_file_system(session)
        for compression in ("snappy", "zstd"):
            _write(session, scratch / compression, compression)
        java = session.sparkContext._gateway.proc  # type: ignore[union-attr]
        session.stop()
        java.stdin.close()  # what ends the Java process in good order, and so makes it write the archive
        if java.wait() != 0 or not archive.exists():
            sys.exit(f"writing {archive}: Java ended with code {java.returncode} and left no archive")
    print(f"{archive}: {archive.stat().st_size >> 20} MB")


def _write(session: SparkSession, folder: Path, compression: str) -> None:
    folder.mkdir()
    staged = folder / "staged.parquet"
    rows = range(1_000)
    columns = {"number": [*rows], "fraction": [i / 7 for i in rows], "text": [f"row {i}" for i in rows]}
    pq.write_table(pa.table({**columns, "group": [i % 4 for i in rows]}), staged)
    frame = session.read.parquet(str(staged))
    frame.write.partitionBy("group").option("compression", compression).parquet(str(folder / "out"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
