"""Merges files of a folder into one: a DataFrame job, in this process or on a cluster."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from app.errors import FatalError
from app.spark.java import find_java
from app.spark.launch import START_HINT, connect, java_log, start_java
from app.spark.session import quoted, reason_of

# PySpark logs each error of a query with its stack in JSON, beside raising it.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)

_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit has started Java, and chosen the master
_ENDING_SECONDS = 30.0
_MASTER_HINT = "PySpark itself starts this one: it needs a complete Java in JAVA_HOME, or spark-submit"
_NUMBER = "number of the folder"
_CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # Spark has no nanoseconds
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.parquet.block.size": str(32 << 20),  # of a row group, which is in the heap until it is written
}


@contextmanager
def merge_session(master: str, heap: str, scratch: Path, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session as long as the block lasts; no other may be active in this process.

    Args:
        master: as Spark writes it. A local one runs in the connector's own Java. After ``spark-submit`` its master
            counts instead.
        heap: of the driver, as Java writes it.
        scratch: a private folder, for temporary files.
        conf: of the session.

    Raises:
        ConnectorError: Spark does not start.
    """
    builder = SparkSession.builder.appName("quix-ts-datalake-sink")
    java = None
    try:
        if _SUBMITTED not in os.environ:
            builder = builder.master(master).config("spark.driver.memory", heap)
            if master.startswith("local"):
                with java_log() as output:
                    java = start_java(find_java(), heap, scratch, output)
                SparkContext._ensure_initialized(gateway=connect(java))
                builder = builder.config("spark.local.dir", str(scratch / "spark"))
        for name, value in {**_CONF, **conf}.items():
            builder = builder.config(name, value)
        session: SparkSession = builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        hint = START_HINT if master.startswith("local") else _MASTER_HINT
        raise FatalError(f"starting Spark with master {master}", reason_of(error), hint) from None
    try:
        yield session
    finally:
        session.stop()
        if java is not None:
            java.end(_ENDING_SECONDS)
            # PySpark keeps one Java process for the life of Python; where it is gone, let another one be started.
            SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
            SparkSession._instantiatedSession = None


@dataclass(frozen=True, slots=True)
class Target:
    """What merged files are to be like.

    Attributes:
        columns: the types of all columns of the table, in their order.
        rescued: the name of the column for values that do not fit, which is one of them.
        sort_column: the column that orders the rows of a file.
    """

    columns: Mapping[str, pa.DataType]
    rescued: str
    sort_column: str | None = None


class Merge:
    """The rows of some files of one folder, in the table's types.

    Args:
        session: runs it.
        sources: the addresses of the files, by their schemas. A schema has columns of the table only.
        target: what the merged file is to be like.
        partition_values: of the folder, for ``erased``.
        erased: conditions in SQL; rows that meet all of them are left out. Without any, no row is.

    Raises:
        FatalError: a file that Spark cannot read, or a condition that it does not understand.
    """

    def __init__(
        self,
        session: SparkSession,
        sources: Mapping[pa.Schema, Sequence[str]],
        target: Target,
        partition_values: Mapping[str, str | None],
        erased: Sequence[str] = (),
    ) -> None:
        self._session = session
        self._target = target
        self._types = {name: from_arrow_type(kind, prefer_timestamp_ntz=True) for name, kind in target.columns.items()}
        found = {name for schema in sources for name in schema.names}
        self._columns = [name for name in target.columns if name in found and name != target.rescued]
        self._is_rescued = target.rescued in found
        self._conditions = " and ".join(f"({condition})" for condition in erased)
        with _translated("reading files of the table with Spark"):
            self._frame = reduce(DataFrame.unionByName, (self._read(*each) for each in sources.items()))
        for name in partition_values.keys() - set(self._columns):
            self._frame = self._frame.withColumn(name, f.lit(partition_values[name]).cast("string"))
        self._is_erased = reduce(and_, map(f.expr, erased)) if erased else f.lit(False)

    def count_erased(self) -> int:
        """How many rows are left out."""
        with _translated(f"looking for rows with {self._conditions}"):
            return self._frame.filter(self._is_erased).count()

    def write(self, out: str, metadata: Mapping[str, Any]) -> None:
        """Write the rows as one file into a new folder.

        Args:
            out: the folder's address.
            metadata: of the first column, for the footer.
        """
        first, *others = self._columns or [self._target.rescued]
        others += [self._target.rescued] if self._is_rescued and self._columns else []
        with _translated("writing a merged file with Spark"):
            # Where a condition is unknown, as for a null, the row stays.
            frame = self._frame.filter(~f.coalesce(self._is_erased, f.lit(False)))
            frame = frame.select(quoted(first).alias(first, metadata=dict(metadata)), *map(quoted, others))
            if self._target.sort_column in self._columns:
                frame = frame.repartition(1).sortWithinPartitions(quoted(self._target.sort_column).asc_nulls_last())
            else:
                frame = frame.coalesce(1)
            frame.write.parquet(out)

    def _read(self, schema: pa.Schema, uris: Sequence[str]) -> DataFrame:
        """The files of one schema, with the columns of the table."""
        spark_schema = self._session.read.parquet(uris[0]).schema
        frame = self._session.read.schema(spark_schema).parquet(*uris)
        columns, misfits = [], []
        for name, wanted in self._types.items():
            if name == self._target.rescued:
                continue
            if name not in schema.names or pa.types.is_null(schema.field(name).type):
                columns.append(f.lit(None).cast(wanted).alias(name))
                continue
            fitted = _fitted(quoted(name), spark_schema[name].dataType, wanted, _is_ns(schema.field(name).type))
            columns.append(fitted.value.alias(name))
            if fitted.is_misfit is not None:
                misfits.append(f.when(fitted.is_misfit, quoted(name)).alias(name))
        has_rescued = self._target.rescued in schema.names
        before = quoted(self._target.rescued) if has_rescued else f.lit(None).cast("string")
        self._is_rescued |= bool(misfits)
        return frame.select(*columns, _rescued(before, misfits).alias(self._target.rescued))


def may_match(
    session: SparkSession,
    folders: Sequence[Mapping[str, str | None]],
    erased: Sequence[str],
    columns: Mapping[str, pa.DataType],
) -> Sequence[bool]:
    """Whether rows of each folder may meet all conditions.

    A condition on partition columns alone is answered by the folder; any other leaves all folders.

    Args:
        session: runs it.
        folders: the partition values of each.
        erased: conditions in SQL.
        columns: those of the table's files.

    Raises:
        ValueError: a condition that Spark does not understand.
    """
    names = [name for name in folders[0] if name not in columns] if folders else []
    values = {name: pa.array([each[name] for each in folders], pa.string()) for name in names}
    frame = session.createDataFrame(pa.table({_NUMBER: pa.array(range(len(folders)), pa.int64()), **values}))
    types = ((name, from_arrow_type(kind, prefer_timestamp_ntz=True)) for name, kind in columns.items())
    all_columns = session.createDataFrame([], StructType([*frame.schema, *(StructField(*each) for each in types)]))
    for condition in erased:
        try:
            all_columns.filter(f.expr(condition))
        except AnalysisException as error:
            raise ValueError(reason_of(error)) from None
        with suppress(AnalysisException):
            frame = frame.filter(f.expr(condition))
    left = {row[0] for row in frame.select(quoted(_NUMBER)).collect()}
    return [number in left for number in range(len(folders))]


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise FatalError(doing, reason_of(error)) from None


def _rescued(before: Column, misfits: Sequence[Column]) -> Column:
    """The JSON object in ``before``, with the values that do not fit."""
    if not misfits:
        return before
    added = f.nullif(f.to_json(f.struct(*misfits)), f.lit("{}"))
    kept = f.rtrim(before)
    joined = f.concat(
        f.substring(kept, f.lit(1), f.length(kept) - 1), f.lit(","), f.substring(added, f.lit(2), f.length(added))
    )
    return f.when(added.isNull(), before).when(before.isNull() | (kept == "{}"), added).otherwise(joined)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A column in the table's type, and where that does not hold its value; ``None`` where it always does."""

    value: Column
    is_misfit: Column | None = None


def _fitted(column: Column, found: DataType, wanted: DataType, is_ns: bool = False) -> _Fitted:
    if is_ns and isinstance(wanted, TimestampType | TimestampNTZType):
        return _fitting(f.timestamp_micros(f.floor(column / 1000)).cast(wanted), column % 1000 != 0)
    if found.simpleString() == wanted.simpleString():
        return _Fitted(column)
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        return _fitted_struct(column, found, wanted)
    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        kinds = found.elementType, wanted.elementType
        value = f.transform(column, lambda item: _fitted(item, *kinds).value)
        return _Fitted(value, f.exists(column, lambda item: _is_misfit(_fitted(item, *kinds))))
    if isinstance(wanted, StringType) and not isinstance(found, AtomicType):
        return _Fitted(f.to_json(column))
    if not _is_castable(found, wanted):
        return _Fitted(f.lit(None).cast(wanted), column.isNotNull())
    value = column.try_cast(wanted)
    return _fitting(value, column.isNotNull() & ~f.coalesce(value.try_cast(found) == column, f.lit(False)))


def _fitting(value: Column, is_misfit: Column) -> _Fitted:
    return _Fitted(f.when(~is_misfit, value), is_misfit)


def _fitted_struct(column: Column, found: StructType, wanted: StructType) -> _Fitted:
    known = set(found.fieldNames())
    fitted = {
        field.name: _fitted(column.getField(field.name), found[field.name].dataType, field.dataType)
        if field.name in known
        else _Fitted(f.lit(None).cast(field.dataType))
        for field in wanted
    }
    value = f.struct(*(each.value.alias(name) for name, each in fitted.items()))
    return _Fitted(f.when(column.isNotNull(), value), reduce(or_, map(_is_misfit, fitted.values())))


def _is_misfit(fitted: _Fitted) -> Column:
    return f.lit(False) if fitted.is_misfit is None else f.coalesce(fitted.is_misfit, f.lit(False))


def _is_castable(found: DataType, wanted: DataType) -> bool:
    """Whether values of the one type mean the same in the other one."""
    times = DateType | TimestampType | TimestampNTZType
    return isinstance(wanted, StringType) or any(
        isinstance(found, kinds) and isinstance(wanted, kinds) for kinds in (NumericType, times)
    )


def _is_ns(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")
