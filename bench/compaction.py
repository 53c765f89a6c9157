"""``make bench-compaction``: ``compact`` on a table of small files in MinIO, and queries before and after it."""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.command import interruptible, positive
from bench.lake import download, hive_source
from bench.totals import WrongRowsError
from bench.usage import Sampler
from dev.lake import query
from dev.machine import ServiceError, announce
from dev.minio import LocalMinio
from dev.parsed_classes import archive_variables, make_archive
from dev.reading_spark import reading_spark
from dev.spark_cluster import spark_cluster

MAIN = Path(__file__).parents[1] / "main.py"
TABLE = "data/readings"
QUERIES = 3


def main() -> int:
    """Measure; 0 when every row is there once afterwards, 1 when not, 130 when interrupted."""
    return interruptible(lambda: _run(_options()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__)
    parser.add_argument("--folders", type=positive, default=100, help="(%(default)s)")
    parser.add_argument("--files", type=positive, default=30, help="of each folder (%(default)s)")
    parser.add_argument("--rows", type=positive, default=1_000, help="of each file (%(default)s)")
    parser.add_argument("--cluster", action="store_true", help="on a Spark cluster of two workers")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    bucket = f"lake-{uuid.uuid4().hex[:12]}"
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        minio = ends.enter_context(LocalMinio())
        minio.client().create_bucket(Bucket=bucket)
        wanted = _fill(minio, bucket, options)
        announce(f"{options.folders * options.files:,} files with {wanted:,} rows")
        _report("before", minio, bucket, folder / "before", wanted)
        variables = {}
        if options.cluster:
            (folder / "cluster").mkdir()
            cluster = ends.enter_context(spark_cluster(folder / "cluster"))
            variables = {"SPARK_MASTER": cluster.master, **cluster.driver}
        make_archive(folder / "spark.jsa")
        with _watched(minio, bucket) as doubled:
            _compact(minio, bucket, {**archive_variables(folder / "spark.jsa"), **variables})
        _report("after", minio, bucket, folder / "after", wanted)
    times = sorted(doubled.values())
    if times:
        middle, most = times[len(times) // 2], times[-1]
        print(f"rows there twice: {len(times)} folders, {middle:.2f} s in the median, {most:.2f} s at most")
    return 0


def _fill(minio: LocalMinio, bucket: str, options: argparse.Namespace) -> int:
    client = minio.client()

    def put(number: int) -> None:
        place, file = divmod(number, options.files)
        first = number * options.rows
        numbers = pa.array(range(first, first + options.rows))
        text = pa.array([f"reading {n % 1_000}" for n in range(options.rows)])
        rows = {"ts_ms": numbers, "n": numbers, "value": pc.divide(numbers.cast("double"), 7.0), "text": text}
        body = BytesIO()
        pq.write_table(pa.table(rows), body)
        client.put_object(Bucket=bucket, Key=f"{TABLE}/place={place:04}/{file:04}.parquet", Body=body.getvalue())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(options.folders * options.files)))
    return int(options.folders * options.files * options.rows)


def _compact(minio: LocalMinio, bucket: str, variables: Mapping[str, str]) -> None:
    settings = {
        "PATH": os.environ["PATH"],
        "S3_BUCKET": bucket,
        "AWS_ENDPOINT_URL": minio.endpoint_url,
        "AWS_ACCESS_KEY_ID": minio.access_key,
        "AWS_SECRET_ACCESS_KEY": minio.secret_key,
        "AWS_REGION": minio.region,
        "input": "readings",
        "HIVE_COLUMNS": "place",
        "SPARK_DRIVER_MEMORY": "512m",
    }
    started = time.monotonic()
    command = [sys.executable, str(MAIN), "compact", "--when-cold", "0m"]
    with subprocess.Popen(command, env=settings | dict(variables), stdout=subprocess.DEVNULL) as process:
        with Sampler([process.pid]) as sampler:
            code = process.wait()
        seconds = time.monotonic() - started
    if code:
        raise ServiceError(f"compact ended with code {code}")
    most = max(sample.resident_mb for sample in sampler.samples)
    cpu = max(sample.cpu_seconds for sample in sampler.samples)
    print(f"compact: {seconds:.0f} s, {cpu:.0f} CPU-s of the command, {most:,.0f} MB at most")


def _report(when: str, minio: LocalMinio, bucket: str, folder: Path, wanted: int) -> None:
    download(minio, bucket, folder)
    table = folder / TABLE
    files = [path for path in table.rglob("*.parquet") if "_journal" not in path.parts]
    size = sum(path.stat().st_size for path in files)
    sql = f"SELECT count(*), count(DISTINCT n), sum(value) FROM {hive_source(table)}"
    found = query(sql)
    if found[0][:2] != (wanted, wanted):
        raise WrongRowsError(f"{found} {when}, and {wanted:,} rows were written")
    duckdb = min(_timed(lambda: query(sql)) for _ in range(QUERIES))
    with reading_spark(folder, master="local[2]") as spark:
        path = str(table)

        def ask() -> None:
            spark.read.parquet(path).selectExpr("count(*)", "sum(value)").collect()

        ask()
        by_spark = min(_timed(ask) for _ in range(QUERIES))
    print(f"{when}: {len(files):,} files, {size:,} bytes; DuckDB {duckdb:.2f} s, Spark {by_spark:.2f} s")


def _timed(work: object) -> float:
    started = time.monotonic()
    work()  # type: ignore[operator]
    return time.monotonic() - started


@contextmanager
def _watched(minio: LocalMinio, bucket: str) -> Iterator[dict[str, float]]:
    """List the table all the while; yields, for each folder, the seconds in which it had merged and old files."""
    first: dict[str, float] = {}
    seconds: dict[str, float] = {}
    stop = threading.Event()

    def look() -> None:
        client = minio.client()
        while not stop.is_set():
            began = time.monotonic()
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{TABLE}/place=")
            kinds = defaultdict[str, set[bool]](set)
            for page in pages:
                for item in page.get("Contents", []):
                    path, _, name = item["Key"].rpartition("/")
                    kinds[path].add(name.startswith("data_merged_"))
            for path, found in kinds.items():
                if len(found) > 1:
                    seconds[path] = time.monotonic() - first.setdefault(path, began)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seconds
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
