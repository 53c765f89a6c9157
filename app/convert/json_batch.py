"""Converts many messages at once into columns and partition values.

Gives the same result as ``rows`` and ``partition_values`` record by record, and refuses messages where the result could
differ.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from app.bad_records.refusals import headers_size, message_size
from app.convert.columns import coerce_array, infer, is_void
from app.convert.json_parser import has_field, is_native, parse
from app.convert.kafka_columns import in_form_of, lost_metadata, metadata_columns
from app.convert.partition_values import fill_null
from app.convert.rows import Rules
from app.convert.time_columns import time_parts_of_column
from app.model import KEY_COLUMN, Headers, Message, Row, TopicPartition, headers_of, known_timestamp
from app.table.layout import RESCUED_COLUMN, TIME_COLUMNS, PartitionSpec
from app.table.schema import TableSchema

# The schema has no types of partition columns, which are in no file. The folder shows values of these types unchanged,
# whatever the other values of the column are.
_HINTS: Mapping[type, pa.DataType] = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class OneByOneError(Exception):
    """Some of these messages must be converted one by one."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Messages as columns: those of the schema that have values, in its order, and one array per partition column."""

    table: pa.Table
    partition_values: list[pa.Array]


@dataclass(frozen=True, slots=True)
class _Origin:
    offset: int
    timestamp: int
    headers: Headers | None


class WholeBatches:
    """Converts messages whose values are JSON and whose keys are text.

    Args:
        spec: the table's partitioning.
        rules: the settings that decide how columns are converted.
        metadata: names of ``METADATA_COLUMNS``.
        max_record_bytes: the largest message that becomes a row.
    """

    def __init__(self, spec: PartitionSpec, rules: Rules, metadata: Sequence[str], max_record_bytes: int) -> None:
        self._spec = spec
        self._rules = rules
        self._metadata = [name for name in metadata if name not in rules.partition_columns]
        self._max_record_bytes = max_record_bytes
        self._own = rules.partition_columns | {KEY_COLUMN, RESCUED_COLUMN, *metadata}
        self._derived = frozenset(spec.columns) & frozenset(TIME_COLUMNS)
        plain = (name for name in spec.columns if name not in self._derived and name != KEY_COLUMN)
        self._hints: dict[str, pa.DataType] = dict.fromkeys(plain, pa.string())

    def learn(self, rows: Iterable[Row]) -> bool:
        """Note the types of partition values in rows that were converted one by one; returns whether any is new."""
        before = dict(self._hints)
        kinds: dict[str, set[type]] = {name: set() for name in self._hints}
        for row in rows:
            for name, found in kinds.items():
                found.add(type(row.value.get(name)))
        for name, found in kinds.items():
            found.discard(type(None))
            if len(found) == 1:
                self._hints[name] = _HINTS.get(found.pop(), pa.string())
        return self._hints != before

    def convert(self, messages: Sequence[Message], tps: Sequence[TopicPartition], schema: TableSchema) -> Columns:
        """Convert messages, of any partitions.

        Args:
            messages: at least one.
            tps: the topic-partition of each, where there are metadata columns.
            schema: of the table.

        Raises:
            OneByOneError: one of them must be converted by itself.
        """
        values = [value for message in messages if (value := message.value()) is not None]
        if len(values) < len(messages) or max(map(len, values)) > self._max_record_bytes:
            raise OneByOneError
        fields = self._fields(values, schema.columns)
        moments = self._moments(fields, values, messages)
        keys = _keys(messages)
        largest = max(map(len, values)) + _longest(keys)
        if largest > self._max_record_bytes:
            raise OneByOneError
        headers = list(map(headers_of, messages))
        if any(headers):
            self._refuse_too_big(messages, largest + max(map(headers_size, headers)))
        arrays = {name: self._stored(name, array, schema.columns) for name, array in fields.items()}
        arrays |= self._completed(fields, moments, schema.columns)
        arrays |= self._keys_column(keys, schema.columns)
        arrays |= self._metadata_columns(messages, headers, tps, schema.columns)
        in_file = (name for name in schema.columns if name in arrays and name not in self._rules.partition_columns)
        stored = {name: arrays[name] for name in in_file if _has_values(arrays[name])}
        if not stored:
            raise OneByOneError
        return Columns(pa.table(stored), self._partition_values(fields, moments, keys))

    def _refuse_too_big(self, messages: Sequence[Message], at_most: int) -> None:
        """Measures each message only if the longest value, key and headers together are too long.

        Args:
            messages: to measure.
            at_most: bytes of the longest value, the longest key and the longest headers together.
        """
        most = self._max_record_bytes
        if at_most > most and any(message_size(one) > most for one in messages):
            raise OneByOneError

    def _fields(self, values: Sequence[bytes], known: Mapping[str, pa.DataType]) -> Mapping[str, pa.Array]:
        """All fields of the table's columns in their types, or as text if the type is not one that Arrow parses."""
        wanted = {
            name: kind if is_native(kind) else pa.string() for name, kind in known.items() if name not in self._own
        }
        wanted |= self._hints
        if self._rules.timestamp_column not in wanted:
            raise OneByOneError
        parsed = parse(values, wanted)
        if parsed is None:
            raise OneByOneError
        others = [name for name in parsed if name not in wanted and name not in self._derived]
        if not all(is_void(parsed[name].type) for name in others):
            raise OneByOneError
        # An empty object is null, but text where the user has fixed the column to text.
        if any(name in self._rules.fixed and not pa.types.is_null(parsed[name].type) for name in others):
            raise OneByOneError
        return {name: parsed[name] for name in wanted}

    def _moments(
        self, fields: Mapping[str, pa.Array], values: Sequence[bytes], messages: Sequence[Message]
    ) -> pa.Array:
        """The timestamp column, or Kafka's timestamps if no message has the field; an explicit null is rare."""
        name = self._rules.timestamp_column
        if not fields[name].null_count:
            return fields[name]
        if has_field(values, name):
            raise OneByOneError
        moments = pa.array([known_timestamp(message.timestamp()[1]) for message in messages], pa.int64())
        if moments.null_count:
            raise OneByOneError
        return moments

    def _completed(
        self, fields: Mapping[str, pa.Array], moments: pa.Array, known: Mapping[str, pa.DataType]
    ) -> Mapping[str, pa.Array]:
        """The timestamp column of the file, if Kafka's timestamps fill it."""
        name = self._rules.timestamp_column
        if name not in known or moments is fields[name]:
            return {}
        values = [in_form_of(known[name], ms) for ms in moments.to_pylist()]
        return {name: self._fitted(name, infer(values), values, known[name])}

    def _stored(self, name: str, array: pa.Array, known: Mapping[str, pa.DataType]) -> pa.Array:
        if name not in known or array.type == known[name] or not _has_values(array):
            return array
        return self._fitted(name, array, array.to_pylist(), known[name])

    def _fitted(self, name: str, array: pa.Array | None, values: Sequence[object], kind: pa.DataType) -> pa.Array:
        column = coerce_array(array, values, kind, fixed=name in self._rules.fixed)
        if column.misfits or column.kind != kind or column.array is None:
            raise OneByOneError
        return column.array

    def _keys_column(self, keys: pa.Array, known: Mapping[str, pa.DataType]) -> Mapping[str, pa.Array]:
        if KEY_COLUMN in self._rules.partition_columns or KEY_COLUMN in self._metadata or not _has_values(keys):
            return {}
        if known.get(KEY_COLUMN) != keys.type:
            raise OneByOneError
        return {KEY_COLUMN: keys}

    def _metadata_columns(
        self,
        messages: Sequence[Message],
        headers: Sequence[Headers | None],
        tps: Sequence[TopicPartition],
        known: Mapping[str, pa.DataType],
    ) -> Mapping[str, pa.Array]:
        if not self._metadata:
            return {}
        origins = [_Origin(one.offset(), one.timestamp()[1], its) for one, its in zip(messages, headers, strict=True)]
        if lost_metadata(self._metadata, origins):
            raise OneByOneError
        columns = metadata_columns(self._metadata, origins, tps)
        if any(_has_values(array) and known.get(name) != array.type for name, array in columns.items()):
            raise OneByOneError
        return columns

    def _partition_values(self, fields: Mapping[str, pa.Array], moments: pa.Array, keys: pa.Array) -> list[pa.Array]:
        parts = time_parts_of_column(moments) if self._derived else {}
        if parts is None:
            raise OneByOneError
        given = {KEY_COLUMN: keys, **fields, self._rules.timestamp_column: moments, **parts}
        return [fill_null(_text(given[name]), self._spec.null_value) for name in self._spec.columns]


def _keys(messages: Sequence[Message]) -> pa.Array:
    try:
        return pa.array([message.key() for message in messages], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise OneByOneError from None


def _longest(texts: pa.Array) -> int:
    """The length of the longest one in bytes."""
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)


def _text(values: pa.Array) -> pa.Array:
    """Values of a partition column as Python writes them."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "True", "False")
    return values.cast(pa.string())


def _has_values(array: pa.Array) -> bool:
    return bool(array.null_count < len(array))
