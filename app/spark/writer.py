"""Starts and ends Spark in local mode, and writes partitioned Parquet files (step 3).

One thread makes all calls, because each Python thread that calls Spark keeps a JVM thread forever. The tables share
this thread, and each table has one job at a time. py4j has no time limit. Therefore the caller limits the time of each
job. A late job is cancelled: its table fails, and the other tables continue. If a cancelled job does not end, Java is
killed, and the process ends.
"""

import contextlib
import gc
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from subprocess import Popen, TimeoutExpired

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, SparkLostError
from app.model import DataFile, OffsetRange, StagedFile, TopicPartition
from app.spark.batch_offsets import as_column_metadata
from app.spark.find_java import find_java
from app.spark.java_process import RESTART_HINT, START_HINT, START_SECONDS, connect, death, ended_at_start, start_java
from app.spark.options import SparkOptions, parquet_options
from app.spark.session import hint_of, quoted, reason_of, spark_conf, use_scratch_file_system
from app.spark.staged_file import StagedWriter
from app.work_pool import WorkPool

_ENDING_SECONDS = 2.0
_WRITES_BETWEEN_COLLECTIONS = 20
_LOOK_SECONDS = 0.05
_CANCELLING_SECONDS = 30.0
_JOB_FILES = 2_000  # a file takes some ms, and tens of ms on a busy machine
_TOO_SLOW = "Provide more processor time and a faster temporary folder, or use fewer folders (HIVE_COLUMNS)"


class SparkWriter:
    """Writes staged batches as partitioned Parquet.

    Args:
        scratch: Private folder of this process. All files in the folder may be deleted.
        job_seconds: Time limit of one Spark job in seconds, from the job's start.

    Attributes:
        is_up: Whether Spark has started.
        versions: The versions of Spark and Java as a text; empty until Spark has started.
        up: Future that completes when Spark has started.
        lost: Future that receives the error when the JVM has ended or hangs.

    Raises:
        ConfigError: SPARK_MASTER is a cluster.
    """

    def __init__(
        self, options: SparkOptions, scratch: Path, job_seconds: float = 600.0, java_options: Sequence[str] = ()
    ) -> None:
        if not options.is_local:
            raise ConfigError(
                f"starting Spark with SPARK_MASTER={options.master}",
                "the connector writes batches with a Spark on its own machine",
                "Remove SPARK_MASTER. Only the commands compact and erase can use a cluster",
            )
        self._options = options
        self._conf = spark_conf(scratch, options.compression, options.row_group_rows, options.off_heap_mb)
        self._scratch = scratch
        self._job_seconds = job_seconds
        self._java_options = java_options
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark")
        self._canceller = WorkPool("spark-cancel")  # may hang like the job
        self._session: SparkSession  # set when Spark has started
        self._process: Popen[bytes] | None = None
        self.is_up = False
        self.versions = ""
        self.up: Future[None] = Future()
        self._closing = threading.Event()
        self.lost: Future[SparkLostError] = Future()
        self._writes = 0

    def start(self) -> Future[None]:
        """Begins to start the JVM, and to write a small batch. This batch warms up Java, and tests the scratch folder.

        Returns the future ``up``. It fails with ``ConfigError`` (no usable Java, too little memory), ``FatalError``, or
        ``SparkLostError`` (Java is killed, crashes, or does not start in time).
        """
        self.up = self._thread.submit(self._start)
        return self.up

    @property
    def alive(self) -> bool:
        """Whether the JVM is starting or running. The JVM is not called."""
        return not self.lost.done() and (self._process is None or self._process.poll() is None)

    def jvm_pid(self) -> int | None:
        return self._process.pid if self._process else None

    def write(self, staged: StagedFile, out: Path) -> list[DataFile]:
        """Writes one Parquet file for each group of a batch into the new folder ``out``. Many groups need several jobs.

        Rows are in ascending order of the sort column. NaN follows all numbers, and nulls are last. Therefore only the
        last row groups contain nulls, and readers skip other row groups by their bounds. The files' footers contain the
        batch's offsets; see ``app.spark.batch_offsets``.

        Raises:
            SparkLostError: The JVM ended, or a late job does not end.
            RetryableError: A job was late.
            FatalError: Spark refused the batch, the disk is full, or the files do not contain all staged rows.
        """
        files: list[DataFile] = []
        numbers = range(len(staged.groups))
        for first in numbers[::_JOB_FILES]:
            files += self._call(staged, numbers[first : first + _JOB_FILES], out / str(first))
        return files

    def close(self) -> None:
        """Kills the JVM. The JVM's files are only in the scratch folder, which is deleted."""
        self._closing.set()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _call(self, staged: StagedFile, numbers: range, out: Path) -> list[DataFile]:
        if self.lost.done():
            raise self.lost.result()
        doing = "writing a batch with Spark"
        job = self._thread.submit(self.write_job, staged, numbers, out)
        while not (job.running() or job.done()):  # the jobs of other tables run first
            wait([job], _LOOK_SECONDS)
        if is_late := not wait([job], self._job_seconds).done:
            self._canceller.submit(self.cancel_job, out)
            if not wait([job], min(self._job_seconds, _CANCELLING_SECONDS)).done:
                raise self._declare_lost(doing, f"no answer from Java for {self._job_seconds:.0f} s")
        try:
            return job.result()
        except (Py4JError, PySparkException, OSError) as error:
            if is_late:
                raise RetryableError(doing, f"it took longer than {self._job_seconds:.0f} s", _TOO_SLOW) from None
            # py4j raises ConnectionError unchanged for a refused connection.
            if self._has_ended() or isinstance(error, Py4JNetworkError | ConnectionError):
                code = self._process.poll() if self._process else None
                raise self._declare_lost(doing, reason_of(error) if code is None else death(code)) from None
            raise FatalError(doing, reason_of(error), hint_of(error)) from None

    def _start(self) -> None:
        late = ("starting Spark", f"Java did not start within {START_SECONDS:.0f} s")
        watchdog = threading.Timer(START_SECONDS, self._declare_lost, late)
        watchdog.daemon = True
        watchdog.start()
        try:
            self._session = self._new_session()
            use_scratch_file_system(self._session)
            self._warm_up()
            java = SparkContext._jvm.java.lang.System.getProperty("java.version")  # type: ignore[union-attr]
            self.versions = f"Spark {self._session.version} in Java {java}"
        except (ConnectorError, Py4JError, PySparkException, OSError) as error:
            failure = self._start_error(error)
            failure.ends_all = True
            raise failure from None
        finally:
            watchdog.cancel()
        self.is_up = True
        threading.Thread(target=self._watch, args=(self._process,), name="spark-watch", daemon=True).start()

    def _start_error(self, error: Exception) -> ConnectorError:
        if self.lost.done():  # the watchdog has ended Java
            return self.lost.result()
        if not isinstance(error, ConnectorError) and self._process is not None and self._has_ended():
            error = ended_at_start(self._process.returncode)
        if isinstance(error, ConnectorError):
            return error
        return ConfigError("starting Spark", reason_of(error), hint_of(error) or START_HINT)

    def _new_session(self) -> SparkSession:
        if SparkContext._gateway is None:  # PySpark uses at most one Java process for each Python process
            started = start_java(find_java(), f"{self._options.heap_mb}m", self._scratch, self._java_options)
            # Set before a session writes into the scratch folder, so that close() can end Java.
            self._process = started.process
            if self._closing.is_set():  # close() was called before the process existed
                self._process.kill()
            SparkContext._ensure_initialized(gateway=connect(started))
        self._process = SparkContext._gateway.proc  # type: ignore[union-attr]
        builder = SparkSession.builder.master(self._options.master).appName("quix-ts-datalake-sink")
        return builder.config(map={**self._conf}).getOrCreate()

    def _warm_up(self) -> None:
        rows = 1_000
        numbers = range(rows)
        columns = {"number": [*numbers], "fraction": [i / 7 for i in numbers], "text": [f"row {i}" for i in numbers]}
        table = pa.table({**columns, "group": pa.array([i % 4 for i in numbers], pa.int32())})
        writer = StagedWriter(self._scratch / "warm-up.parquet", table.schema)
        writer.append(table)
        offsets = OffsetRange(TopicPartition("warm-up", 0), 0, rows - 1)
        staged = writer.finish("group", (DataFile("warm-up", {}, rows // 4),) * 4, offsets=(offsets,))
        out = self._scratch / "warm-up"
        self.write_job(staged, range(4), out)
        shutil.rmtree(out)
        staged.path.unlink()

    def write_job(self, staged: StagedFile, numbers: range, out: Path) -> list[DataFile]:
        """Writes the files of these groups. Only Spark's thread calls this method."""
        frame = self._read(staged.path)
        if len(numbers) < len(staged.groups):
            frame = frame.where(quoted(staged.group_column).between(numbers[0], numbers[-1]))
        if staged.offsets:
            first = frame.columns[0]
            metadata = as_column_metadata(staged.offsets)
            # withMetadata() would read a dot in the name as a field of a struct.
            frame = frame.withColumn(first, quoted(first).alias(first, metadata=metadata))
        # Spark's sort by the group column is stable, so the rows of each file keep their order of arrival. Spark skips
        # the sort if rows are already in order. A second sort column would disable Spark's radix sort.
        if staged.sort_column is not None:
            frame = frame.sortWithinPartitions(quoted(staged.group_column), quoted(staged.sort_column).asc_nulls_last())
        context = self._session.sparkContext
        context.setJobGroup(str(out), "")
        try:
            frame.write.options(**parquet_options(staged)).partitionBy(staged.group_column).parquet(str(out))
        except Py4JJavaError:
            tracker = context._jsc.sc().statusTracker()
            while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):  # a task outlives its job
                time.sleep(_LOOK_SECONDS)
            raise
        self._writes += 1
        if self._writes % _WRITES_BETWEEN_COLLECTIONS == 0:
            gc.collect(1)  # frees py4j's cyclic objects, and their Java objects; few rows cause no collection
        return _collect(staged, numbers, out)

    def cancel_job(self, out: Path) -> None:
        self._session.sparkContext.cancelJobGroup(str(out))

    def _read(self, path: Path) -> DataFrame:
        """Returns the rows of a staged file, which Spark reads as one task."""
        reader = self._session.read
        # Without a schema, Spark would start a job for each batch to read the schema from the file's footer. PySpark
        # has no type for uint64. Spark then reads the footer, and uses decimal(20, 0).
        with contextlib.suppress(PySparkTypeError):
            reader = reader.schema(from_arrow_schema(pq.read_schema(path), prefer_timestamp_ntz=True))
        return reader.parquet(str(path))

    def _watch(self, process: Popen[bytes]) -> None:
        self._declare_lost("running Spark", death(process.wait()))

    def _has_ended(self) -> bool:
        """Whether the JVM has ended. Waits, because connections break some moments before the end is reported."""
        try:
            return self._process is None or self._process.wait(_ENDING_SECONDS) is not None
        except TimeoutExpired:
            return False

    def _declare_lost(self, doing: str, cause: str) -> SparkLostError:
        error = SparkLostError(doing, cause, RESTART_HINT)
        if self._closing.is_set():
            return error
        with contextlib.suppress(InvalidStateError):  # another thread has already set the error
            self.lost.set_result(error)
        if self._process is not None:
            self._process.kill()
        return self.lost.result()


def _collect(staged: StagedFile, numbers: range, out: Path) -> list[DataFile]:
    """Returns the written files in the order of their groups. Checks the number of rows in each file."""
    files = []
    for index, file in zip(numbers, staged.groups[numbers.start : numbers.stop], strict=True):
        written = list((out / f"{staged.group_column}={index}").glob("*.parquet"))
        rows = sum(pq.read_metadata(path).num_rows for path in written)
        if len(written) != 1 or rows != file.rows:
            raise FatalError(
                "checking what Spark wrote",
                f"{file.rows:,} rows of {file.key} became {len(written)} files with {rows:,} rows",
                "No file of this batch was uploaded. Please report this as a bug",
            )
        files.append(replace(file, path=written[0], size=written[0].stat().st_size))
    return files
