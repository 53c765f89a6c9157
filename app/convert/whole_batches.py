"""Converts many messages at a time into columns and partition values.

The modules ``rows`` and ``partition_values`` convert record by record, with the same result. If the result could
differ, this module refuses the messages.
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.chunks import FEW, AllHeaders, Chunk, Rows, Values
from app.convert.columns import Columns, coerce_array, has_sparse_list, has_values, infer, is_void
from app.convert.json_columns import JsonMessages
from app.convert.kafka_columns import METADATA, in_form_of, lost_metadata, metadata_columns, metadata_of
from app.convert.partition_values import fill_null, texts_of
from app.convert.rows import Rules
from app.convert.time_folders import moments_of_column, parts_of
from app.model import KEY_COLUMN, Headers, Message, Row, TopicPartition, headers_of_all, known_timestamp
from app.table.layout import RESCUED_COLUMN, TIME_COLUMNS, PartitionSpec
from app.table.schema import TableSchema
from app.table.type_names import Types

# Files contain no partition columns, so the schema has no types for partition columns. For values of the types below,
# the folder's name does not depend on other values of the column.
_HINTS: Mapping[type, pa.DataType] = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class OneByOneError(Exception):
    """Some of these messages must be converted one by one."""


Patiently = Callable[[Callable[[], Any]], Any]
"""Repeats a call until the queried system answers."""
ReadKey = Callable[[bytes, Headers | None], Any]
"""Deserializes a message key. The headers belong to the message. Raises ``ValueError``."""


class MessageParser(Protocol):
    """Parses the values of many messages into columns."""

    def parse(self, values: Values, headers: AllHeaders, types: Types, fixed: Container[str], /) -> Columns | None:
        """Parses the fields of at least one value.

        ``types`` contains the types of the table's columns and of the partition columns. ``fixed`` contains the columns
        whose types the user has set.

        Returns:
            A map from each field's name to its array, each as long as the values: all names of ``types``, and further
            fields. An array may have the values' type. ``None`` if messages must be read one by one.
        """

    def has_field(self, values: Values, headers: AllHeaders, name: str, /) -> bool:
        """Whether any value may contain a field of this name. ``False`` means that no value contains the field."""


class WholeBatches:
    """Converts messages. ``read_key`` reads message keys that are not texts. If ``parser`` is missing, values are JSON.

    ``ask_with`` receives the function that repeats requests to the registry. ``few`` messages are faster one by one.
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
        """Learns the types of partition values from rows that were converted one by one."""
        for name in self._hints:
            classes = {type(row.value.get(name)) for row in rows} - {type(None)}
            if len(classes) == 1:
                self._hints[name] = _HINTS.get(classes.pop(), pa.string())

    def convert(self, chunk: Chunk, tps: Sequence[TopicPartition], schema: TableSchema) -> Rows:
        """Converts one or more messages of any partitions. Only metadata columns need ``tps``.

        Raises:
            OneByOneError: messages must be converted one by one.
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
        origins = [Row({}, None, message.timestamp()[1], message.offset(), pair) for message, pair in pairs]
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

    def _fields(self, values: Values, headers: AllHeaders, schema_types: Types) -> Columns:
        timestamp = self._rules.timestamp_column
        types = {name: kind for name, kind in schema_types.items() if name not in self._own - {timestamp}} | self._hints
        parsed = self._parser.parse(values, headers, types, self._rules.fixed) if timestamp in types else None
        if parsed is None:
            raise OneByOneError
        new = [name for name in parsed if name not in types and name not in self._derived]
        if not all(is_void(parsed[name].type, is_new=True) for name in new):
            raise OneByOneError
        # An empty object or list is null, or text if the user has set the column's type to text.
        if any(name in self._rules.fixed and not pa.types.is_null(parsed[name].type) for name in new):
            raise OneByOneError
        if any(has_sparse_list(parsed[name]) for name in types):
            raise OneByOneError
        return {name: parsed[name] for name in types}

    def _moments(self, fields: Columns, values: Values, headers: AllHeaders, messages: Sequence[Message]) -> pa.Array:
        """Returns the timestamp column; if no message contains the field, returns the Kafka timestamps."""
        name = self._rules.timestamp_column
        if not fields[name].null_count and name not in self._metadata:
            return fields[name]
        if self._parser.has_field(values, headers, name):  # perhaps the field is null in a message, which is rare
            raise OneByOneError
        moments = pa.array([known_timestamp(message.timestamp()[1]) for message in messages], pa.int64())
        if moments.null_count:
            raise OneByOneError
        return moments

    def _completed(self, fields: Columns, moments: pa.Array, types: Types) -> Columns:
        """Returns the timestamp column filled with Kafka timestamps; no column if messages contain the field."""
        name = self._rules.timestamp_column
        if name not in types or moments is fields[name]:
            return {}
        values = [in_form_of(types[name], ms) for ms in moments.to_pylist()]
        return {name: self._fitted(name, infer(values), values, types[name])}

    def _stored(self, name: str, array: pa.Array, types: Types) -> pa.Array:
        if name not in types or array.type == types[name] or not has_values(array):
            return array
        return self._fitted(name, array, array.to_pylist(maps_as_pydicts="strict"), types[name])

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
            numbers: dict[tuple[bytes | None, Any], int] = {(None, None): 0}  # many messages have the same message key
            places = []
            for key, pairs in zip(raw, headers, strict=True):
                place = (key, None if key is None or not pairs else tuple(pairs))
                if key is not None and place not in numbers:
                    numbers[place] = len(values)
                    values.append(self._read_key(key, pairs))
                places.append(numbers[place])
            array = infer(values)
            # Arrow converts mixed values to one type: a number among times to a time, True among floats to 1.0.
            if array is None or [*map(repr, array.to_pylist())] != [*map(repr, values)]:
                raise OneByOneError
        except (ValueError, OverflowError, pa.ArrowInvalid):
            raise OneByOneError from None
        return array.take(pa.array(places, pa.int64()))

    def _keys_column(self, keys: pa.Array, types: Types) -> Columns:
        if KEY_COLUMN in self._rules.partition_columns or KEY_COLUMN in self._metadata or not has_values(keys):
            return {}
        if KEY_COLUMN not in types or (self._read_key is None and types[KEY_COLUMN] != keys.type):
            raise OneByOneError
        return {KEY_COLUMN: self._stored(KEY_COLUMN, keys, types)}

    def _extra_columns(
        self, times: pa.Array, origins: Sequence[Row], tps: Sequence[TopicPartition], types: Types
    ) -> Columns:
        if lost_metadata(self._metadata, origins):
            raise OneByOneError
        columns = metadata_columns(self._metadata, origins, tps)
        if self._rules.timestamp_as:
            columns[self._rules.timestamp_as] = _usable(times)
        stored = ((name, array) for name, array in columns.items() if name not in self._rules.partition_columns)
        if any(has_values(array) and types.get(name) != array.type for name, array in stored):
            raise OneByOneError
        return columns

    def _partition_values(self, fields: Columns, extra: Columns, times: pa.Array, keys: pa.Array) -> list[pa.Array]:
        parts = parts_of(_usable(times).cast(pa.int64()), self._spec.time_zone) if self._derived else {}
        given = {KEY_COLUMN: keys, **fields, **extra, **parts}
        return [fill_null(self._texts(given[name], fields, name), self._spec.null_value) for name in self._spec.columns]

    def _texts(self, values: pa.Array, fields: Columns, column: str) -> pa.Array:
        """Returns the texts of a column. If the column has a path, missing values are read from nested fields."""
        texts, (first, *inner) = _text(values, column), self._spec.path(column)
        if not inner or not texts.null_count:
            return texts
        values = fields.get(first, pa.nulls(0))
        for name in inner:
            if pa.types.is_map(values.type):
                raise OneByOneError
            index = values.type.get_field_index(name) if pa.types.is_struct(values.type) else -1
            if index < 0:
                return texts
            values = pc.struct_field(values, [index])
        if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):  # 1 is now 1.0, or 1.5 is now 1.50
            raise OneByOneError
        return pc.coalesce(texts, _text(values, column))


def _usable(timestamps: pa.Array) -> pa.Array:
    with suppress(pa.ArrowInvalid):  # Kafka's milliseconds, converted to microseconds, may need more than 64 bits
        if (moments := moments_of_column(timestamps)) is not None:
            return moments
    raise OneByOneError


def _text(values: pa.Array, column: str) -> pa.Array:
    """Returns the texts that Python's ``str()`` returns for the values of a partition column."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "True", "False")
    if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
        return values.cast(pa.string())
    if pa.types.is_nested(values.type):  # Python's text of a nested time would contain the name of the time zone
        raise OneByOneError
    return texts_of(values.to_pylist(), column)
