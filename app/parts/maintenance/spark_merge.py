"""Merges files of a folder into one file with Spark, on this machine or on a cluster."""

import itertools
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from app.config.parsers import ORDER_COLUMNS
from app.errors import FatalError, SparkLostError
from app.parts.maintenance.fitting import absent, fitted, is_part, with_misfits
from app.parts.maintenance.removal import NOTHING, Removal
from app.spark.java_process import START_HINT, only_java
from app.spark.session import COMMON_CONF, hint_of, quoted, reason_of

# PySpark raises each error of a query, so these loggers, which repeat the error as JSON, are not needed.
for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    logging.getLogger(name).setLevel(logging.CRITICAL)

_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set if spark-submit has started Java and chosen the master
_MASTER_HINT = "PySpark starts Java for this master: it needs a complete Java in JAVA_HOME, or spark-submit"
_LOST_HINT = "If memory was too small, raise SPARK_DRIVER_MEMORY. Run the command again"
_MOST_COMPILED = 500  # maximum fields of a table for compiled code; with more, compiling needs too much time and heap
_CALL = "UnresolvedFunction"  # the class of a function call in Spark's parser
# Groups of Spark functions that are refused: some functions call Java methods, read files, or show session values.
_OUTSIDE = {"avro_funcs", "misc_funcs", "protobuf_funcs", "xml_funcs"}
_CONF = COMMON_CONF | {
    "spark.sql.variable.substitute": "false",  # otherwise ${env:NAME} in a condition shows a secret
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",  # more tasks are slower
    "spark.sql.parquet.columnarReaderBatchSize": "256",  # rows in the heap at a time
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # Spark has no type for nanoseconds
    "spark.hadoop.parquet.block.size": str(32 << 20),  # bytes of a row group in the heap
}


@contextmanager
def merge_session(master: str, heap: str, scratch: Path, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a Spark session, and stop it at the end of the block. This process may have only one active session.

    A local ``master`` uses the connector's Java. If ``spark-submit`` has started this process, its master is used
    instead of ``master``. ``heap`` is the size of the driver's heap, for example ``512m``.

    Raises:
        ConnectorError: Spark does not start.
    """
    builder = SparkSession.builder.appName("quix-ts-datalake-sink")
    with ExitStack() as ends:
        try:
            if _SUBMITTED not in os.environ:
                if master.startswith("local"):
                    ends.enter_context(only_java(heap, scratch))
                    builder = builder.config("spark.local.dir", str(scratch / "spark"))
                builder = builder.master(master).config("spark.driver.memory", heap)
            progress = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
            for name, value in {**_CONF, **progress, **conf}.items():
                builder = builder.config(name, value)
            session: SparkSession = builder.getOrCreate()
        except (Py4JError, PySparkException, OSError) as error:
            hint = START_HINT if master.startswith("local") else _MASTER_HINT
            raise FatalError(f"starting Spark with master {master}", reason_of(error), hint) from None
        try:
            yield session
        finally:
            with suppress(Py4JError, ConnectionError):  # the Java process has already ended
                session.stop()


def has_ended(session: Any) -> bool:
    """Return whether Spark or its Java process has ended."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except (Py4JError, ConnectionError):
        return True


@dataclass(frozen=True, slots=True)
class Target:
    """The columns of merged files.

    ``columns`` are all columns of the table, in the table's order, with their types. ``rescued`` is the column for
    values that do not fit.
    """

    columns: Mapping[str, pa.DataType]
    rescued: str
    sort_column: str | None = None


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise FatalError(doing, reason_of(error), hint_of(error)) from None
    except (Py4JError, ConnectionError) as error:
        raise SparkLostError(doing, f"Java does not answer: {reason_of(error)}", _LOST_HINT) from None


class Merge:
    """The rows of some files of one folder, converted to the table's types.

    Args:
        sources: The addresses of the files for each schema. The schemas contain only columns of the table.
        partition_values: The folder's partition values, for the conditions, and for files without a partition column.
        removal: The rows that ``write`` omits. ``may_match`` has accepted the conditions.

    Raises:
        FatalError: Spark cannot read a file.
        SparkLostError: Java has ended. ``count_erased`` and ``write`` also raise this error.
    """

    def __init__(
        self,
        session: SparkSession,
        sources: Mapping[pa.Schema, Sequence[str]],
        target: Target,
        partition_values: Mapping[str, str | None],
        removal: Removal = NOTHING,
    ) -> None:
        self._session = session
        self._target = target
        self._partition_values = partition_values
        self._types = {name: from_arrow_type(kind, prefer_timestamp_ntz=True) for name, kind in target.columns.items()}
        names = {name for schema in sources for name in schema.names}
        self._columns = [name for name in target.columns if name in names and name != target.rescued]
        self._may_rescue = target.rescued in names
        uris_by_schema: dict[pa.Schema, list[str]] = {}
        for schema, uris in sources.items():
            uris_by_schema.setdefault(self._schema_to_read(schema), []).extend(uris)
        self._removal = removal
        fields = sum(1 + str(kind).count(": ") for kind in target.columns.values())
        mode = "NO_CODEGEN" if fields > _MOST_COMPILED else "FALLBACK"  # "FALLBACK" is Spark's default
        with _translated("reading files of the table with Spark"):
            session.conf.set("spark.sql.codegen.factoryMode", mode)
            self._frame = reduce(DataFrame.unionByName, (self._read(*each) for each in uris_by_schema.items()))
            for name in partition_values.keys() - set(self._columns):
                self._frame = self._frame.withColumn(name, f.lit(partition_values[name]).cast("string"))
            conditions = removal.conditions
            self._is_erased = reduce(and_, (_parsed(session, each) for each in conditions), f.lit(bool(conditions)))
            # If a condition is null for a row, the row is kept.
            is_erased = f.coalesce(self._is_erased, f.lit(False))
            self._kept = self._newest(is_erased) if removal.newest_by else self._frame.filter(~is_erased)

    def count_erased(self) -> int:
        """Return the number of rows that ``write`` omits."""
        with _translated(f"looking for rows to remove: {self._removal}"):
            if self._removal.newest_by:
                return self._frame.count() - self._kept.count()
            return self._frame.filter(self._is_erased).count()

    def write(self, out: str, metadata: Mapping[str, Any]) -> None:
        """Write the rows as one file into the new folder ``out``. Store ``metadata`` in the first column's metadata."""
        rescued = self._target.rescued
        first, *others = self._columns or [rescued]
        with _translated("writing a merged file with Spark"):
            frame = self._kept
            # Some readers do not merge schemas, and fail if only some files contain a column.
            if self._may_rescue and self._columns and not frame.filter(quoted(rescued).isNotNull()).isEmpty():
                others.append(rescued)
            of_first = quoted(first).alias(first, metadata=dict(metadata))
            # A column may have metadata of an earlier merge, so the metadata is removed.
            frame = frame.select(of_first, *(quoted(name).alias(name, metadata={}) for name in others))
            order = self._target.sort_column or ""
            if order in self._columns and "map<" not in self._types[order].simpleString():  # Spark cannot compare maps
                frame = frame.repartition(1).sortWithinPartitions(quoted(order).asc_nulls_last())
            else:
                frame = frame.coalesce(1)
            frame.write.parquet(out)

    def _newest(self, is_dropped: Column) -> DataFrame:
        """Return the newest rows of each key. A row without a key, or with an unknown order, is not removed.

        Only the partition of the key's latest row remains. In this partition, a row is removed if another row has a
        higher offset and no earlier time: after a topic was recreated, newer rows have lower offsets.
        """
        key = [quoted(name) for name in self._removal.newest_by]
        has_key = reduce(and_, (column.isNotNull() for column in key))
        partition, offset, at = map(quoted, ORDER_COLUMNS)
        has_order = partition.isNotNull() & offset.isNotNull() & at.isNotNull()
        alone, latest_partition, of_rows = _free_names(self._frame.columns)
        frame = self._frame.withColumn(alone, f.when(~has_key, f.monotonically_increasing_id()))
        rows_of_key = Window.partitionBy(*key, quoted(alone))
        latest = f.max_by(partition, f.when(has_order, f.struct(at, partition)))
        frame = frame.withColumn(latest_partition, latest.over(rows_of_key))
        later_rows = rows_of_key.orderBy(at.desc(), offset.desc()).rowsBetween(Window.unboundedPreceding, -1)
        in_latest = has_order & (partition == quoted(latest_partition))
        frame = frame.withColumn(of_rows, f.max(f.when(in_latest, offset)).over(later_rows))
        is_newest = in_latest & f.coalesce(quoted(of_rows) <= offset, f.lit(True))
        frame = frame.filter(~has_order | is_newest).withColumn(of_rows, f.every(is_dropped).over(rows_of_key))
        return frame.filter(~(has_key & has_order & quoted(of_rows)))

    def _schema_to_read(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns to read, with their types in the files. Spark reads missing columns as nulls."""

        def types() -> Iterator[tuple[str, pa.DataType]]:
            for name, target in self._target.columns.items():
                kind = schema.field(name).type if name in schema.names else target
                if not pa.types.is_null(kind) and (name in schema.names or name not in self._partition_values):
                    yield name, target if is_part(kind, target) else kind

        return pa.schema(list(types()))

    def _read(self, schema: pa.Schema, uris: Sequence[str]) -> DataFrame:
        """Read files, and convert columns to those of the table. Columns of ``schema`` may be missing in a file."""
        others = {name for name in schema.names if schema.field(name).type != self._target.columns[name]}
        kinds = {name: self._types[name] for name in schema.names} | self._spark_types(uris[0], others)
        frame = self._session.read.schema(StructType([*itertools.starmap(StructField, kinds.items())])).parquet(*uris)
        columns = {name: absent(self._types[name], self._partition_values.get(name)) for name in self._types}
        columns |= {
            name: fitted(quoted(name), kind, self._types[name], schema.field(name).type) for name, kind in kinds.items()
        }
        before = columns.pop(rescued := self._target.rescued).value
        conditions = {name: column.is_misfit for name, column in columns.items() if column.is_misfit is not None}
        misfits = {name: f.when(is_misfit, quoted(name)) for name, is_misfit in conditions.items()}
        self._may_rescue |= bool(misfits)
        values = (column.value.alias(name) for name, column in columns.items())
        return frame.select(*values, with_misfits(before, rescued, misfits).alias(rescued))

    def _spark_types(self, uri: str, names: Set[str]) -> dict[str, DataType]:
        """Return the types that Spark finds for these columns in the file."""
        if not names:
            return {}
        frame, doing = self._session.read.parquet(uri), "reading files of the table with Spark"
        if '"type":"udt"' in frame._jdf.schema().json():  # PySpark would import the code of a user-defined type
            cause = "the Spark schema in a file's metadata has a user-defined type"
            raise FatalError(doing, cause, "Write the file without this metadata, or delete it")
        types = {field.name: field.dataType for field in frame.schema}
        if missing := names - types.keys():
            columns = ", ".join(map(repr, sorted(missing)))
            cause = f"the Spark schema in a file's metadata has no columns {columns}"
            hint = "Another program has copied the metadata from another file: write the file without this metadata"
            raise FatalError(doing, cause, hint)
        return {name: types[name] for name in names}


@_translated("looking for folders with these rows")
def may_match(
    session: SparkSession,
    folders: Sequence[Mapping[str, str | None]],
    erased: Sequence[str],
    columns: Mapping[str, pa.DataType],
) -> Sequence[bool]:
    """Return, for each folder, whether its rows may meet all SQL conditions. ``folders`` are partition values.

    A condition can exclude a folder only if the condition uses only partition columns.

    Raises:
        ValueError: Spark cannot parse a condition, or a condition uses more than the values of a row.
        SparkLostError: Java has ended.
    """
    names = {name: None for values in folders for name in values if name not in columns}
    values = {name: pa.array([each.get(name) for each in folders], pa.string()) for name in names}
    number, *_ = _free_names(names)
    frame = session.createDataFrame(pa.table({number: pa.array(range(len(folders)), pa.int64()), **values}))
    types = ((name, from_arrow_type(kind, prefer_timestamp_ntz=True)) for name, kind in columns.items())
    empty = session.createDataFrame([], StructType([*frame.schema.fields[1:], *(StructField(*each) for each in types)]))
    for condition in erased:
        try:
            is_erased = _parsed(session, condition)
            named = _lasting_names(session, empty.filter(is_erased))
        except AnalysisException as error:
            raise ValueError(reason_of(error)) from None
        if named <= names.keys():  # without the table's columns, user would be a function of Spark
            frame = frame.filter(is_erased)
    try:
        matches = {row[0] for row in frame.select(quoted(number)).collect()}
    except (Py4JJavaError, PySparkException) as error:  # a folder's value is not a number, for example
        raise ValueError(reason_of(error)) from None
    return [index in matches for index in range(len(folders))]


def _free_names(columns: Iterable[str]) -> list[str]:
    """Return three names that are longer than the names of all columns, and therefore different."""
    return ["_" * max(map(len, columns), default=0) + digit for digit in "123"]


def _parsed(session: SparkSession, condition: str) -> Column:
    """Parse a condition. Raise ``ValueError`` if the condition uses more than the values of a row.

    The check precedes Spark's analysis, because the analysis would load classes and read files.
    """
    catalyst: Any = session._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]
    tree = session._jsparkSession.sessionState().sqlParser().parseExpression(condition)
    patterns = catalyst.trees.TreePattern
    if any(map(tree.containsPattern, (patterns.PLAN_EXPRESSION(), patterns.UNRESOLVED_IDENTIFIER()))):
        raise ValueError("it has a subquery or IDENTIFIER(), and may only use the values of a row")
    if tree.getClass().getSimpleName() == "Alias":
        raise ValueError(f"it ends with {tree.name()!r}, which belongs to no operator")
    registry = catalyst.analysis.FunctionRegistry.builtin()
    for name in {part["nameParts"].strip("[]") for part in json.loads(tree.toJSON()) if _CALL in part["class"]}:
        function = registry.lookupFunction(catalyst.FunctionIdentifier(name))
        if function.isEmpty() or function.get().getGroup() in _OUTSIDE:
            raise ValueError(f"{name}() is not a function of Spark that only uses the values of a row")
    return f.expr(condition)


def _lasting_names(session: SparkSession, frame: DataFrame) -> set[str]:
    """Return the columns in the condition of a filtered frame.

    Raises:
        ValueError: The condition's result changes with the time or at random.
    """
    plan = frame._jdf.queryExecution().analyzed()
    patterns = getattr(session._jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    if not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
        raise ValueError("its result changes with the time or at random; write a date instead of the current one")
    named = plan.condition().references().toSeq()
    return {named.apply(number).name() for number in range(named.size())}
