"""Makes an archive of parsed classes, which halves the processor time of Spark's start.

    python -m dev.class_archive FILE

A run of the connector's own write makes Java load the classes, and Java writes the archive when it ends. From Java 25
on that is its ahead-of-time cache, before it a dynamic archive. Java checks an archive against itself, its jars and its
options, and starts without one that does not match. The image has an archive, named in ``SPARK_SUBMIT_OPTS``.
"""

import logging
import sys
from pathlib import Path

from app.errors import ConnectorError
from app.spark.find_java import find_java, release_of
from app.spark.java_process import only_java
from app.spark.options import SparkOptions
from app.spark.scratch import scratch_folder
from app.spark.writer import SparkWriter

_WITH_AOT_CACHE = 25  # the first Java that makes one in a single run


def _makes_cache(java: Path) -> bool:
    return (release_of(java) or 0) >= _WITH_AOT_CACHE


def archive_option(java: Path, archive: Path) -> str:
    return f"-XX:{'AOTCache' if _makes_cache(java) else 'SharedArchiveFile'}={archive}"


def make(java: Path, archive: Path) -> None:
    """Makes an archive.

    Raises:
        ConnectorError: Java failed, or made none.
    """
    option = "AOTCacheOutput" if _makes_cache(java) else "ArchiveClassesAtExit"
    with scratch_folder() as scratch, only_java("512m", scratch, [f"-XX:{option}={archive}"]) as started:
        for compression in ("snappy", "zstd"):
            options = SparkOptions("local[1]", 512, 64, compression, row_group_rows=1_000_000)
            SparkWriter(options, scratch).start().result()  # it writes a small batch
        code = started.end()  # it writes the archive then
        if code != 0 or not archive.exists():
            raise ConnectorError("making an archive of classes", f"Java ended with code {code}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    try:
        make(find_java(), Path(sys.argv[1]))
    except (ConnectorError, OSError) as error:
        sys.exit(f"ERROR: {sys.argv[1]}: {error}")
