"""Hive partitioning as pure functions: partition values of rows, folder names, file names, comparing specs.

Folder strings are those the Quix data lake already holds: ``str()`` of bools and floats, plain integers, and for the
time columns zero-padded UTC parts (``2024``, ``01``, ``05``, ``00``). They are escaped the way Hive and Spark escape.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from app.errors import ConfigError
from app.model import BatchPart
from app.timestamps import TIME_COLUMNS, time_parts

QUIX_NULL = "__None__"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
MAX_SEGMENT_BYTES = 255  # a file name's limit on every local file system
MAX_KEY_BYTES = 1024  # S3's limit for a key
_MAX_TOPIC_IN_NAME = 120  # leaves room for offsets and owner below MAX_SEGMENT_BYTES

# What Hive's FileUtils and Spark's ExternalCatalogUtils escape, and NUL, which no store can hold in a name.
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How a table is partitioned.

    Args:
        columns: partition columns, outermost folder first; empty for a table without folders.
        timestamp_column: where ``year``, ``month``, ``day`` and ``hour`` come from.
        null_value: folder value of a null, missing, NaN or empty value.
    """

    columns: tuple[str, ...]
    timestamp_column: str
    null_value: str


def escape(text: str) -> str:
    """Escape a column name or value for a folder name: ``a/b`` becomes ``a%2Fb``."""
    return _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", text)


def unescape(text: str) -> str:
    """The inverse of ``escape``."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)


def folder(values: Mapping[str, str]) -> str:
    """``{"year": "2024", "place": "a/b"}`` → ``year=2024/place=a%2Fb``; empty without partition columns."""
    return "/".join(f"{escape(column)}={escape(value)}" for column, value in values.items())


def file_name(part: BatchPart) -> str:
    """The name of a data file, unique for ever: offsets of the batch, the assignment's token, the batch's number.

    Topics are restricted to ``[A-Za-z0-9._-]`` by Kafka, so they need no escaping; long ones are cut and hashed.
    """
    offsets = part.offsets
    topic = offsets.tp.topic
    if len(topic) > _MAX_TOPIC_IN_NAME:
        topic = topic[:_MAX_TOPIC_IN_NAME] + "~" + hashlib.sha256(topic.encode()).hexdigest()[:8]
    return f"data_{topic}-{offsets.tp.partition}_{offsets.first:019d}-{offsets.last}_{part.owner}-{part.number}.parquet"


def data_key(table_root: str, values: Mapping[str, str], name: str) -> str:
    """The key of a data file below the table's root."""
    return "/".join(part for part in (table_root, folder(values), name) if part)


def too_long(table_root: str, values: Mapping[str, str], name: str) -> str | None:
    """Why these partition values cannot become a folder, or ``None`` when they can."""
    for column, value in values.items():
        size = len(f"{escape(column)}={escape(value)}".encode())
        if size > MAX_SEGMENT_BYTES:
            return f"partition column {column!r} needs a folder name of {size} bytes, {MAX_SEGMENT_BYTES} are allowed"
    size = len(data_key(table_root, values, name).encode())
    if size > MAX_KEY_BYTES:
        return f"the file's key has {size} bytes, {MAX_KEY_BYTES} are allowed"
    return None


def partition_columns(table: pa.Table, spec: PartitionSpec) -> list[pa.Array]:
    """The partition values of every row.

    Args:
        table: rows as they came; a column that is not there is null in all of them.
        spec: the table's partitioning.

    Returns:
        One string array without nulls per column of the spec, each as long as the table.

    Raises:
        BadValueError: a timestamp cannot be used, with the row's position.
    """
    parts: Mapping[str, pa.Array] = {}
    if any(column in TIME_COLUMNS for column in spec.columns):
        parts = time_parts(_column(table, spec.timestamp_column))
    strings = (parts[name] if name in TIME_COLUMNS else _value_strings(_column(table, name)) for name in spec.columns)
    return [_fill_null(array, spec.null_value) for array in strings]


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """The column; nulls where no row has a value, for such columns are not in the table."""
    return table.column(name) if name in table.column_names else pa.chunked_array([pa.nulls(table.num_rows)])


def _fill_null(strings: pa.Array, null_value: str) -> pa.Array:
    empty = pc.equal(strings, "")
    return pc.if_else(pc.fill_null(empty, True), null_value, strings)


def _value_strings(column: pa.ChunkedArray) -> pa.Array:
    """Text of each value as the folder shows it, null where it has none."""
    array = column.combine_chunks()
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return array.cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return array.cast(pa.string())
    return pa.array([_text(value) for value in array.to_pylist()], pa.string())


def _text(value: object) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return str(value)


def group_ids(arrays: Sequence[pa.Array]) -> pa.Array:
    """Number the distinct tuples of the arrays in the order they are first seen.

    Codes are combined rather than strings joined: a joined string cannot tell ``("a-b", "c")`` from ``("a", "b-c")``.

    Returns:
        int32 array, as long as the inputs.
    """
    first, *others = (array.dictionary_encode() for array in arrays)
    codes = first.indices
    for encoded in others:
        wide = pc.add(
            pc.multiply(codes.cast(pa.int64()), pa.scalar(max(1, len(encoded.dictionary)), pa.int64())),
            encoded.indices.cast(pa.int64()),
        )
        codes = wide.dictionary_encode().indices
    return codes.cast(pa.int32())


def spec_of_key(key: str, table_root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The partition columns and (unescaped) values in a data file's key below the table's root."""
    folders = key.removeprefix(table_root).strip("/").split("/")[:-1]
    pairs = [part.partition("=") for part in folders if "=" in part]
    return tuple(unescape(name) for name, _, _ in pairs), tuple(unescape(value) for _, _, value in pairs)


def is_data_file(key: str, table_root: str) -> bool:
    """Whether a key is a data file of the table: Parquet, and nothing on its way hidden by ``_`` or ``.``."""
    parts = key.removeprefix(table_root).strip("/").split("/")
    return key.endswith(".parquet") and not any(part.startswith((".", "_")) and "=" not in part for part in parts)


def check_spec(configured: Sequence[str], existing: Iterable[tuple[str, ...]], where: str) -> str | None:
    """Compare the configured columns with those a table already has.

    Returns:
        A warning when only the order differs, else ``None``.

    Raises:
        ConfigError: other columns; both specs are in the message.
    """
    for spec in existing:
        if set(spec) != set(configured):
            raise ConfigError(
                "checking the table's partitioning",
                f"{where} is partitioned by {_listed(spec)}, HIVE_COLUMNS says {_listed(configured)}",
                f"Set HIVE_COLUMNS={','.join(spec)} to go on with this table, or TABLE_NAME to begin another",
            )
    for spec in existing:
        if tuple(configured) != spec:
            return (
                f"{where} has its partition columns in the order {_listed(spec)}, HIVE_COLUMNS in the order "
                f"{_listed(configured)}: both work, but readers that list folders find two orders"
            )
    return None


def _listed(columns: Sequence[str]) -> str:
    return "[" + ", ".join(columns) + "]" if columns else "[] (no partitioning)"


def null_value_of(values: Iterable[str]) -> str | None:
    """Which null folder a table already uses, or ``None`` when none of its values is one."""
    seen = set(values)
    return next((name for name in (QUIX_NULL, HIVE_NULL) if name in seen), None)
