"""What the commands of this package have in common."""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NoReturn

from bench.stage import Stage
from bench.totals import WrongRowsError
from dev.iceberg_catalog import LocalIcebergCatalog
from dev.java import find_java
from dev.kafka import LocalKafka
from dev.machine import ServiceError
from dev.minio import LocalMinio
from dev.parsed_classes import make_archive
from dev.schema_registry import LocalSchemaRegistry

RESULTS = Path(__file__).with_name("results")


def interruptible(run: Callable[[], int]) -> int:
    """Run a benchmark; returns its exit code, 1 when it failed, 130 when it was interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)  # by default it would leave the servers behind
    try:
        return run()
    except (ServiceError, WrongRowsError) as error:
        print(f"The benchmark ends without a result: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; everything that was started is stopped.", file=sys.stderr)
        return 130


@contextmanager
def services(registry: bool = False) -> Iterator[Stage]:
    """A Kafka, a MinIO and perhaps a schema registry for the block, and for connectors what their image has.

    Raises:
        ServiceError: they cannot be had, or this is not Linux.
    """
    if not Path("/proc/self/stat").exists():
        raise ServiceError("memory and processor time are read from /proc, which Linux alone has")
    find_java()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as running:
        classes = Path(folder) / "spark.jsa"
        make_archive(classes)
        kafka, minio = running.enter_context(LocalKafka()), running.enter_context(LocalMinio())
        schemas = running.enter_context(LocalSchemaRegistry()) if registry else None

        @cache
        def catalog() -> LocalIcebergCatalog:
            return running.enter_context(LocalIcebergCatalog("s3://warehouse", minio))  # each table has its own place

        yield Stage(kafka, minio, classes, catalog, schemas)


def positive(text: str) -> int:
    """A whole number of at least 1, for ``argparse``."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
