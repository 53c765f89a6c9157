"""Hive partitioning as pure functions: partition values of rows, folder names, keys, comparing specs.

Folder strings are those the Quix data lake already holds: ``str()`` of bools and floats, plain integers, and for the
time columns zero-padded UTC parts (``2024``, ``01``, ``05``, ``00``). They are escaped the way Hive and Spark escape.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.bad_rows import BadRowsError
from app.errors import ConfigError
from app.fitting import is_empty
from app.model import KEY_COLUMN, Row, known_timestamp
from app.timestamps import TIME_COLUMNS, time_parts

QUIX_NULL = "__None__"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
MAX_SEGMENT_BYTES = 255  # a file name's limit on every local file system
MAX_KEY_BYTES = 1024  # S3's limit for a key

# What Hive's FileUtils and Spark's ExternalCatalogUtils escape, and NUL, which no store can hold in a name.
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How a table is partitioned.

    Args:
        columns: partition columns that are folders, outermost first; empty for a table without folders.
        timestamp_column: where ``year``, ``month``, ``day`` and ``hour`` come from.
        null_value: folder value of a null, missing, NaN or empty value.
        order: all levels of the table's tree in the catalog, by default just the folders.
    """

    columns: tuple[str, ...]
    timestamp_column: str
    null_value: str
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.order:
            object.__setattr__(self, "order", self.columns)

    @property
    def virtual(self) -> tuple[str, ...]:
        """Levels that are no folders: columns of the records, also where they are named like a time part."""
        return tuple(name for name in self.order if name not in self.columns)


def escape(text: str) -> str:
    """Escape a column name or value for a folder name: ``a/b`` becomes ``a%2Fb``."""
    return _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", text)


def unescape(text: str) -> str:
    """The inverse of ``escape``."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)


def folder(values: Mapping[str, str]) -> str:
    """``{"year": "2024", "place": "a/b"}`` → ``year=2024/place=a%2Fb``; empty without partition columns."""
    return "/".join(f"{escape(column)}={escape(value)}" for column, value in values.items())


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


def partition_columns(rows: Sequence[Row], spec: PartitionSpec) -> list[pa.Array]:
    """The partition values of every row, each from the row's own values: no row changes the folder of another.

    Args:
        rows: records; one that lacks the timestamp column has its Kafka timestamp there, any other column is null.
        spec: the table's partitioning.

    Returns:
        One string array without nulls per folder column of the spec, each as long as the rows.

    Raises:
        BadRowsError: timestamps that cannot be used and values that are no text, in all rows that have any.
    """
    strings: dict[str, pa.Array] = {}
    reasons: dict[int, str] = {}
    if any(column in TIME_COLUMNS for column in spec.columns):
        moments = _values(rows, spec.timestamp_column, spec)
        reasons.update(_without_any_timestamp(rows, moments, spec.timestamp_column))
        try:
            strings.update(time_parts(moments))
        except BadRowsError as error:
            reasons.update(error.reasons)
    for column in (column for column in spec.columns if column not in TIME_COLUMNS):
        try:
            strings[column] = _texts(_values(rows, column, spec), column)
        except BadRowsError as error:
            reasons = error.reasons | reasons
    if reasons:
        raise BadRowsError(dict(sorted(reasons.items())))
    return [fill_null(strings[column], spec.null_value) for column in spec.columns]


def _values(rows: Sequence[Row], column: str, spec: PartitionSpec) -> list[Any]:
    """What the table holds in a column: the key and the timestamp column are completed from what Kafka says."""
    if column == KEY_COLUMN:
        return [row.key for row in rows]
    records = map(attrgetter("value"), rows)
    try:
        return list(map(itemgetter(column), records))
    except KeyError:  # some records lack it
        if column == spec.timestamp_column:
            return [row.value[column] if column in row.value else known_timestamp(row.timestamp) for row in rows]
        return [row.value.get(column) for row in rows]


def _without_any_timestamp(rows: Sequence[Row], moments: Sequence[Any], column: str) -> dict[int, str]:
    """Why rows cannot be placed that Kafka gives no timestamp either; an explicit null is the record's own word."""
    reason = f"it has no {column!r}, and its Kafka message has no timestamp"
    without = (index for index, moment in enumerate(moments) if moment is None and column not in rows[index].value)
    return {index: reason for index in without if known_timestamp(rows[index].timestamp) is None}


def fill_null(strings: pa.Array, null_value: str) -> pa.Array:
    """The texts of a partition column with the null folder's for those that are null or empty."""
    empty = pc.equal(strings, "")
    return pc.if_else(pc.fill_null(empty, True), null_value, strings)


def _texts(values: Sequence[Any], column: str) -> pa.Array:
    """Text of each value as the folder shows it, null where it has none."""
    with suppress(UnicodeEncodeError, pa.ArrowException):  # not all are text
        return pa.array(values, pa.string())
    if set(map(type, values)) <= {int, type(None)}:
        with suppress(OverflowError, pa.ArrowException):  # not all have 64 bits
            return pa.array(values, pa.int64()).cast(pa.string())
    texts: list[str | None] = []
    reasons: dict[int, str] = {}
    for row, value in enumerate(values):
        text = None
        try:
            text = _text(value)
            if text is not None:
                text.encode()
        except (ValueError, RecursionError) as error:
            # Half of a surrogate pair, or a number or nesting beyond what Python writes out.
            reasons[row] = f"partition column {column!r} has a {type(value).__name__} that is no text: {error}"
        texts.append(text)
    if reasons:
        raise BadRowsError(reasons)
    return pa.array(texts, pa.string())


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, dict) and is_empty(value)):
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", errors="backslashreplace")
    if isinstance(value, Decimal) and value.is_nan():
        return None
    if isinstance(value, Real) and value != value:  # noqa: PLR0124 - NaN, also the one of NumPy
        return None
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


def check_spec(
    configured: Sequence[str], existing: Iterable[tuple[str, ...]], where: str, virtual: Sequence[str] = ()
) -> str | None:
    """Compare the configured columns with those a table already has.

    Args:
        configured: the folders, or where a catalog is compared all levels of the tree.
        existing: the specs that were found.
        where: names the table in messages.
        virtual: configured levels that are no folders.

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
                f"Set HIVE_COLUMNS={_setting(spec, configured, virtual)} to go on with this table, "
                "or TABLE_NAME to begin another",
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


def _setting(spec: Sequence[str], configured: Sequence[str], virtual: Sequence[str]) -> str:
    """HIVE_COLUMNS for a spec that was found; virtual levels stay virtual, for folders do not tell of them."""
    found = [f"~{name}" if name in virtual and name in configured else name for name in spec]
    others = [f"~{name}" for name in virtual if name not in spec and name not in configured]
    return ",".join(found + others)


def null_value_of(values: Iterable[str]) -> str | None:
    """Which null folder a table already uses, or ``None`` when none of its values is one."""
    seen = set(values)
    return next((name for name in (QUIX_NULL, HIVE_NULL) if name in seen), None)
