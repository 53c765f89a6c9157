"""``make bench-iceberg``: the time of a commit to a growing Iceberg table, by one member or by several.

The catalog is the reference one, the metadata is in MinIO. A commit has five files and the marks of 64
topic-partitions, or each member's share of them. The files are not uploaded, for a commit does not read them.
"""

import argparse
import logging
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.rest import RestCatalog

from app.errors import RetryableError
from app.model import DataFile, Mark, TopicPartition
from app.parts.iceberg.catalog_address import IcebergTarget
from app.parts.iceberg.table import IcebergTable
from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from app.table.layout import HIVE_NULL, PartitionSpec
from bench.command import interruptible, positive
from bench.totals import WrongRowsError
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.machine import announce
from dev.minio import LocalMinio

FILES, PARTITIONS = 5, 64
ROWS = 10  # of a file
TOPIC = "readings"
PREFIX = f"data/{TOPIC}"
SNAPSHOT_DAYS = 1.0  # the default
TOLD = (10, 300, 1_000, 2_000, 3_000)
MEDIAN_OF, LONGEST_OF = 10, 100  # commits up to one that is told
START_SECONDS = 30.0  # for all members together


@dataclass(frozen=True, slots=True)
class Work:
    """What a member does: so many commits, each at a random moment of an interval of its own.

    Attributes:
        begin: of the first interval, in seconds since the epoch.
    """

    catalog: str
    bucket: S3Target
    member: int
    members: int
    commits: int
    interval: float
    begin: float


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds of each commit; how often another one was quicker, and how often it failed."""

    seconds: Sequence[float]
    conflicts: int
    failures: int


def main() -> int:
    """Measure; 0 when the table has every file once, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.iceberg_commits", description=__doc__)
    parser.add_argument("--commits", type=positive, default=TOLD[-1], help="of each member (%(default)s)")
    parser.add_argument("--members", type=positive, default=1, help="processes that share a table (%(default)s)")
    parser.add_argument("--interval", type=float, default=0.0, help="seconds in which each commits once (%(default)s)")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    bucket = f"lake-{uuid.uuid4().hex[:12]}"
    with LocalMinio() as minio, LocalIcebergCatalog(f"s3://{bucket}", minio) as catalog:
        minio.client().create_bucket(Bucket=bucket)
        target = minio.target(bucket)
        _table(catalog.url, target).create_table(
            f"s3://{bucket}/{PREFIX}", PartitionSpec(("place",), "ts_ms", HIVE_NULL)
        )
        announce(f"{options.members} members, {options.commits:,} commits each")
        begin = time.time() + (START_SECONDS if options.members > 1 else 0.0)
        works = [
            Work(catalog.url, target, member, options.members, options.commits, options.interval, begin)
            for member in range(options.members)
        ]
        with ProcessPoolExecutor(options.members, multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(commit, works))
        listed = RestCatalog("bench", uri=catalog.url, **catalog.storage).load_table(("lake", TOPIC)).inspect.files()
    paths, wanted = listed["file_path"].to_pylist(), options.members * options.commits * FILES
    if len(paths) != wanted or len(set(paths)) != wanted:
        raise WrongRowsError(f"{len(paths)} files in the table, {len(set(paths))} different ones, {wanted} expected")
    seconds = [each for member in found for each in member.seconds]
    print(
        f"{len(seconds)} commits: {statistics.median(seconds):.2f} s in the median, {max(seconds):.2f} s at most, "
        f"{sum(member.conflicts for member in found)} conflicts, {sum(member.failures for member in found)} failures"
    )
    return 0


def commit(work: Work) -> Found:
    """Work as one member, in a process of its own."""
    conflicts = _Conflicts()
    logger = logging.getLogger(IcebergTable.__module__)
    logger.addHandler(conflicts)
    logger.setLevel(logging.DEBUG)
    table = _table(work.catalog, work.bucket)
    footer, size = _footer()
    partitions = [TopicPartition(TOPIC, number) for number in range(work.member, PARTITIONS, work.members)]
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    failures = 0
    for number in range(work.commits):
        files = [_file(f"{work.member}-{number}-{file}", work.bucket.bucket, size, footer) for file in range(FILES)]
        moment = work.begin + (number + random.random()) * work.interval  # noqa: S311
        time.sleep(max(0.0, moment - time.time()))
        wall, cpu = time.monotonic(), time.process_time()
        while True:
            try:
                table.add_files(files, TOPIC, [Mark(partition, "series", number) for partition in partitions])
                break
            except RetryableError:  # the pipeline tries again too
                failures += 1
        seconds.append(time.monotonic() - wall)
        cpu_seconds.append(time.process_time() - cpu)
        if work.members == 1 and len(seconds) in TOLD:
            median, of_cpu = (1000 * statistics.median(some[-MEDIAN_OF:]) for some in (seconds, cpu_seconds))
            longest = 1000 * max(seconds[-LONGEST_OF:])
            announce(
                f"commit {len(seconds):,}: {median:.0f} ms, {of_cpu:.0f} ms of processor time here; "
                f"the longest of {min(len(seconds), LONGEST_OF)} took {longest:.0f} ms"
            )
    return Found(seconds, conflicts.seen, failures)


class _Conflicts(logging.Handler):
    """Counts what is said of conflicts."""

    seen = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.seen += "another commit was quicker" in record.msg


def _table(catalog: str, bucket: S3Target) -> IcebergTable:
    target = IcebergTarget(catalog, {"uri": catalog}, bucket.uri, "lake", TOPIC, "group", SNAPSHOT_DAYS)
    table = IcebergTable(target, S3Store(bucket, max_workers=1))
    table.check()
    return table


def _file(name: str, bucket: str, size: int, footer: pq.FileMetaData) -> DataFile:
    key = f"{PREFIX}/place=Rome/{name}.parquet"
    return DataFile(key, {"place": "Rome"}, ROWS, size, footer=footer, uri=f"s3://{bucket}/{key}")


def _footer() -> tuple[pq.FileMetaData, int]:
    """Of a file as Spark writes it, with its size."""
    columns = {"n": range(ROWS), "x": [1.5] * ROWS, "s": ["a"] * ROWS, "place": ["Rome"] * ROWS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.parquet"
        pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), path)
        return pq.read_metadata(path), path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
