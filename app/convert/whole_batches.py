"""Converts many messages at once into columns and partition values.

Gives the same result as ``rows`` and ``partition_values`` record by record; refuses messages where it could differ.
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.chunks import FEW, AllHeaders, Chunk, Rows, Values
from app.convert.columns import Columns, coerce_array, has_sparse_list, has_values, infer, is_void
from app.convert.json_parser import JsonMessages
from app.convert.kafka_columns import METADATA, in_form_of, lost_metadata, metadata_columns, metadata_of
from app.convert.partition_values import fill_null, texts_of
from app.convert.rows import Rules
from app.convert.time_columns import moments_of_column, parts_of
from app.model import KEY_COLUMN, Headers, Message, Row, TopicPartition, headers_of_all, known_timestamp
from app.table.layout import RESCUED_COLUMN, TIME_COLUMNS, PartitionSpec
from app.table.schema import TableSchema
from app.table.type_names import Types

# The schema has no types of partition columns, which are in no file. The folder shows values of these types unchanged,
# whatever the other values of the column are.
_HINTS: Mapping[type, pa.DataType] = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class OneByOneError(Exception):
    """Some of these messages must be converted one by one."""


Patiently = Callable[[Callable[[], Any]], Any]
"""Repeats a call until the system that it asks answers."""
ReadKey = Callable[[bytes, Headers | None], Any]
"""Reads a key of a message with these headers; raises ``ValueError``."""


class MessageParser(Protocol):
    """Parses the values of many messages into columns."""

    def parse(self, values: Values, headers: AllHeaders, wanted: Types, fixed: Container[str], /) -> Columns | None:
        """Parses the fields of all values, of which there is at least one.

        ``wanted`` has the columns of the table with their types, and partition columns. ``fixed`` are those whose types
        the user has set.

        Returns:
            Fields by name, as long as ``values``: all of ``wanted``, and others that occur. A field may have another
            type than ``wanted`` says if that is the type of its values. ``None`` if messages must be read one by one.
        """

    def has_field(self, values: Values, headers: AllHeaders, name: str, /) -> bool:
        """Whether a field of this name may occur in any of the values; ``False`` is certain."""


class WholeBatches:
    """Converts messages; ``read_key`` reads keys that are no text, and without a ``parser`` the values are JSON.

    ``ask_with`` sets how the schema registry is asked, if there is one. So ``few`` messages are not worth it.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        rules: Rules,
        metadata: Sequence[str],
        parser: MessageParser | None = None,
        read_key: ReadKey | None = None,
        ask_with: Callable[[Patiently], None] | None = None,
        few: int = FEW,
    ) -> None:
        self._spec = spec
        self._rules = rules
        self._metadata = metadata_of(spec, metadata)
        self._parser = parser or JsonMessages()
        self._read_key = read_key
        self.ask_with = ask_with or (lambda _: None)
        self.few = few
        self._own = rules.partition_columns | {KEY_COLUMN, RESCUED_COLUMN, *self._metadata, rules.timestamp_as}
        self._derived = frozenset(spec.columns) & frozenset(TIME_COLUMNS)
        plain = (name for name in spec.columns if name not in {*self._derived, *METADATA, KEY_COLUMN})
        self._hints: dict[str, pa.DataType] = dict.fromkeys(plain, pa.string())

    def learn(self, rows: Collection[Row]) -> None:
        """Notes the types of partition values in rows that were converted one by one."""
        for name in self._hints:
            found = {type(row.value.get(name)) for row in rows} - {type(None)}
            if len(found) == 1:
                self._hints[name] = _HINTS.get(found.pop(), pa.string())

    def convert(self, chunk: Chunk, tps: Sequence[TopicPartition], schema: TableSchema) -> Rows:
        """Converts messages, at least one, of any partitions; ``tps`` is needed only for metadata columns.

        Raises:
            OneByOneError: one of them must be converted by itself.
        """
        messages = chunk.messages
        values = [value for message in messages if (value := message.value()) is not None]
        if len(values) < len(messages):
            raise OneByOneError
        headers = headers_of_all(messages)
        fields = self._fields(values, headers, schema.columns)
        moments = self._moments(fields, values, headers, messages)
        keys = self._keys([message.key() for message in messages], headers)
        arrays = {name: self._stored(name, array, schema.columns) for name, array in fields.items()}
        arrays |= self._completed(fields, moments, schema.columns)
        arrays |= self._keys_column(keys, schema.columns)
        pairs = zip(messages, headers, strict=True) if self._metadata else ()
        origins = [Row({}, None, one.timestamp()[1], one.offset(), its) for one, its in pairs]
        is_own = moments is fields[self._rules.timestamp_column]
        times = moments if is_own else moments.cast(pa.timestamp("ms", "UTC"))
        extra = self._extra_columns(times, origins, tps, schema.columns)
        arrays |= extra
        in_file = (name for name in schema.columns if name in arrays and name not in self._rules.partition_columns)
        stored = {name: arrays[name] for name in in_file if has_values(arrays[name])}
        if not stored:
            raise OneByOneError
        named = {**fields, self._rules.timestamp_column: moments}
        partition_values = self._partition_values(named, extra, times, keys)
        return Rows(pa.table(stored), partition_values, chunk.parts, is_own)

    def _fields(self, values: Values, headers: AllHeaders, known: Types) -> Columns:
        timestamp = self._rules.timestamp_column
        wanted = {name: kind for name, kind in known.items() if name not in self._own - {timestamp}} | self._hints
        if timestamp not in wanted:
            raise OneByOneError
        parsed = self._parser.parse(values, headers, wanted, self._rules.fixed)
        if parsed is None:
            raise OneByOneError
        others = [name for name in parsed if name not in wanted and name not in self._derived]
        if not all(is_void(parsed[name].type) for name in others):
            raise OneByOneError
        # An empty object is null, but text where the user has fixed the column to text.
        if any(name in self._rules.fixed and not pa.types.is_null(parsed[name].type) for name in others):
            raise OneByOneError
        if any(has_sparse_list(parsed[name]) for name in wanted):
            raise OneByOneError
        return {name: parsed[name] for name in wanted}

    def _moments(self, fields: Columns, values: Values, headers: AllHeaders, messages: Sequence[Message]) -> pa.Array:
        """Returns the timestamp column, or Kafka's timestamps if no message has the field; an explicit null is rare."""
        name = self._rules.timestamp_column
        if not fields[name].null_count and name not in self._metadata:
            return fields[name]
        if self._parser.has_field(values, headers, name):
            raise OneByOneError
        moments = pa.array([known_timestamp(message.timestamp()[1]) for message in messages], pa.int64())
        if moments.null_count:
            raise OneByOneError
        return moments

    def _completed(self, fields: Columns, moments: pa.Array, known: Types) -> Columns:
        """Adds the timestamp column of the file, if Kafka's timestamps fill it."""
        name = self._rules.timestamp_column
        if name not in known or moments is fields[name]:
            return {}
        values = [in_form_of(known[name], ms) for ms in moments.to_pylist()]
        return {name: self._fitted(name, infer(values), values, known[name])}

    def _stored(self, name: str, array: pa.Array, known: Types) -> pa.Array:
        if name not in known or array.type == known[name] or not has_values(array):
            return array
        return self._fitted(name, array, array.to_pylist(), known[name])

    def _fitted(self, name: str, array: pa.Array | None, values: Sequence[object], kind: pa.DataType) -> pa.Array:
        column = coerce_array(array, values, kind, fixed=name in self._rules.fixed)
        if column.misfits or column.kind != kind or column.array is None:
            raise OneByOneError
        return column.array

    def _keys(self, raw: Sequence[bytes | None], headers: AllHeaders) -> pa.Array:
        try:
            if self._read_key is None:
                return pa.array(raw, pa.binary()).cast(pa.string())
            values: list[Any] = [None]
            numbers: dict[tuple[bytes | None, Any], int] = {(None, None): 0}  # many messages have the same key
            places = []
            for key, its in zip(raw, headers, strict=True):
                place = (key, None if key is None or not its else tuple(its))
                if key is not None and place not in numbers:
                    numbers[place] = len(values)
                    values.append(self._read_key(key, its))
                places.append(numbers[place])
            array = infer(values)
            # Arrow takes values of several types for one: a number among times for a time, True for 1.0.
            if array is None or [*map(repr, array.to_pylist())] != [*map(repr, values)]:
                raise OneByOneError
        except (ValueError, OverflowError, pa.ArrowInvalid):
            raise OneByOneError from None
        return array.take(pa.array(places, pa.int64()))

    def _keys_column(self, keys: pa.Array, known: Types) -> Columns:
        if KEY_COLUMN in self._rules.partition_columns or KEY_COLUMN in self._metadata or not has_values(keys):
            return {}
        if KEY_COLUMN not in known or (self._read_key is None and known[KEY_COLUMN] != keys.type):
            raise OneByOneError
        return {KEY_COLUMN: self._stored(KEY_COLUMN, keys, known)}

    def _extra_columns(
        self, times: pa.Array, origins: Sequence[Row], tps: Sequence[TopicPartition], known: Types
    ) -> Columns:
        if lost_metadata(self._metadata, origins):
            raise OneByOneError
        columns = metadata_columns(self._metadata, origins, tps)
        if self._rules.timestamp_as:
            columns[self._rules.timestamp_as] = _usable(times)
        stored = ((name, array) for name, array in columns.items() if name not in self._rules.partition_columns)
        if any(has_values(array) and known.get(name) != array.type for name, array in stored):
            raise OneByOneError
        return columns

    def _partition_values(self, fields: Columns, extra: Columns, times: pa.Array, keys: pa.Array) -> list[pa.Array]:
        parts = parts_of(_usable(times).cast(pa.int64()), self._spec.time_zone) if self._derived else {}
        given = {KEY_COLUMN: keys, **fields, **extra, **parts}
        return [fill_null(self._texts(given[name], fields, name), self._spec.null_value) for name in self._spec.columns]

    def _texts(self, values: pa.Array, fields: Columns, column: str) -> pa.Array:
        """Returns the texts of a column; of rows without a value that of the field inside objects, if it has a path."""
        found, (first, *inner) = _text(values, column), self._spec.path(column)
        if not inner or not found.null_count:
            return found
        values = fields.get(first, pa.nulls(0))
        for name in inner:
            index = values.type.get_field_index(name) if pa.types.is_struct(values.type) else -1
            if index < 0:
                return found
            values = pc.struct_field(values, [index])
        if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):  # 1 became 1.0, or 1.5 became 1.50
            raise OneByOneError
        return pc.coalesce(found, _text(values, column))


def _usable(timestamps: pa.Array) -> pa.Array:
    with suppress(pa.ArrowInvalid):  # milliseconds of Kafka beyond 64 bits of microseconds
        if (moments := moments_of_column(timestamps)) is not None:
            return moments
    raise OneByOneError


def _text(values: pa.Array, column: str) -> pa.Array:
    """Returns the values of a partition column as Python writes them."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "True", "False")
    if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
        return values.cast(pa.string())
    if pa.types.is_nested(values.type):  # whose text has Python's name for the zone of a time
        raise OneByOneError
    return texts_of(values.to_pylist(), column)
