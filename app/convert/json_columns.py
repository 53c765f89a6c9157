"""Parses JSON messages with Arrow. Returns ``None`` if Arrow's result could differ from a JSON library's result.

The caller then converts the messages one by one. The module detects these differences:

- Each message must be exactly one object. Messages are joined by line breaks, but Arrow's parser does not end an object
  at a line break. Each message must begin with ``{``, end with ``}``, and contain no line break. Then an unclosed
  object makes the next message a syntax error. If objects and messages are equal in number, each message is one object.
- Some numbers in double columns: integers with more digits than a double, ``-0``, and ``NaN`` (not valid JSON).
- Text that is not UTF-8, which Arrow would accept, and the character NUL, at which Arrow would end the text.
- ``{}``, because the connector stores ``{}`` as null.
- Deep nesting. With about 10,000 levels or more, Arrow's stack overflows, and the process ends.
"""

import re
from collections.abc import Container, Sequence
from operator import itemgetter
from typing import Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from app.convert.bounds import MAX_DEPTH, MOST_CELLS
from app.convert.chunks import AllHeaders, Values
from app.convert.columns import Columns, accepts, coerce_array, recast
from app.json_texts import reader_of
from app.table.type_names import Types, contains, parts, scalar_count

_NATIVE = frozenset({pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()})
_FEW_CELLS, _CELLS_OF_A_BYTE = 2**13, 8  # cells of the elements of lists: Arrow needs up to 100 ns for each cell
_FEW_OBJECTS = 16  # objects in a message; for so few objects, a sample of messages is enough to estimate the columns
_NAME = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"\s*:', re.DOTALL)
_MOST_WITH_NEW_FIELDS = 2048  # messages with fields that have no column yet, because all these fields may be different
_SAMPLE = 32  # messages
_EXACT = float(2**53)  # a double cannot store every integer from this size
_MINUS_ZERO = re.compile(rb"-0[,}\]\s]")  # the whole number 0, unlike -0.0
_LONG_INTEGER = re.compile(rb"[\[:,\s]-?\d{16,}[,\]}\s]")
_SAFE_LEVELS = 128  # far below the limits of Arrow and of recursive functions
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\xff\xff")
_BRACKETS_AT_A_TIME = 2**20  # each needs 8 bytes
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_FIRST, _LAST = itemgetter(0), itemgetter(-1)
_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


class JsonMessages:
    def parse(self, values: Values, headers: AllHeaders, types: Types, fixed: Container[str]) -> Columns | None:
        """Returns the fields, or ``None``. A column of a type that Arrow cannot parse is parsed as text."""
        maps = {name: kind for name, kind in types.items() if contains(kind, pa.types.is_map)}
        kinds = {name: kind if is_native(kind) else pa.string() for name, kind in types.items() if name not in maps}
        try:
            texts = self._json_of(values, headers)
            texts, columns = _take_maps(texts, maps, fixed) if maps else (texts, {})
        except (ValueError, TypeError, AttributeError):  # not an object, or a number that orjson cannot write
            return None
        return None if (others := parse(texts, kinds)) is None else {**others, **columns}

    def has_field(self, values: Values, headers: AllHeaders, name: str) -> bool:
        return has_field(self._json_of(values, headers), name)

    def _json_of(self, values: Sequence[bytes], _: AllHeaders) -> Sequence[bytes]:
        return values


def _take_maps(texts: Sequence[bytes], maps: Types, fixed: Container[str]) -> tuple[list[bytes], Columns]:
    """Returns the messages without these fields, and their columns. Raises ``ValueError`` if a value does not fit."""
    records, columns = [*map(reader_of(texts), texts)], {}
    for name, kind in maps.items():
        column = coerce_array(None, [record.pop(name, None) for record in records], kind, fixed=name in fixed)
        if column.misfits or column.kind != kind:
            raise ValueError(name)
        columns[name] = column.array
    return [*map(orjson.dumps, records)], columns


def is_native(kind: pa.DataType) -> bool:
    """Whether Arrow parses JSON values into this type with the same result as ``app.convert.values``."""
    return kind in _NATIVE or (kind.num_fields > 0 and all(map(is_native, parts(kind))))


def parse(messages: Sequence[bytes], columns: Types) -> Columns | None:
    """Parses one or more messages. Each must be one JSON object. Each type of ``columns`` must be ``is_native``.

    Returns:
        A map from each field's name to its array, with one value per message: the fields of ``columns``, and further
        fields in Arrow's types. ``None`` if a JSON library and ``app.convert.values`` could return a different result.
    """
    text = b"\n".join(messages)
    if not _is_one_object_each(messages, text) or not _is_utf8(text):
        return None
    if max(map(len, messages)) > 2 * _SAFE_LEVELS and any(map(_is_deep, messages)):
        return None
    in_lists = sum(scalar_count(kind) for kind in columns.values() if contains(kind, pa.types.is_list))
    cells = len(messages) * sum(map(scalar_count, columns.values()))
    if cells > MOST_CELLS or not _has_room(text, in_lists):
        return None
    table = _read(text, columns, "error")
    if table is None and len(messages) <= _MOST_WITH_NEW_FIELDS and _may_infer(messages, text, columns):
        table = _read(text, columns, "infer")
    if table is None or table.num_rows != len(messages):
        return None
    arrays = {
        name: column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    if any(_levels(array.type) > MAX_DEPTH for array in arrays.values()):
        return None
    if not all(accepts(kind, arrays[name].type) for name, kind in columns.items()):
        return None  # an object has new fields
    if not all(_is_exact(array, text) for array in arrays.values()):
        return None
    return {name: recast(array, columns[name]) if name in columns else array for name, array in arrays.items()}


def _has_room(text: bytes, fields: int) -> bool:
    """Whether the number of cells is small enough if each object has this number of fields."""
    return fields == 0 or fields * text.count(b"{") <= _FEW_CELLS + _CELLS_OF_A_BYTE * len(text)


def _may_infer(messages: Sequence[bytes], text: bytes, columns: Types) -> bool:
    objects = text.count(b"{")
    if objects > len(messages) + _FEW_OBJECTS:  # each message is at least one object
        with_many = b"\n".join(message for message in messages if message.count(b"{") > _FEW_OBJECTS)
        if not _has_room(text, len(set(_NAME.findall(with_many)))):
            return False
    return objects * _expected_columns(messages, columns) <= MOST_CELLS


def _expected_columns(messages: Sequence[bytes], columns: Types) -> int:
    """Estimates the number of inferred columns from two samples. If names are ids, each message adds columns."""
    sample = [max(messages, key=len), *messages[:: max(1, len(messages) // (2 * _SAMPLE))]]
    parts = [_read(b"\n".join(sample[:size]), columns, "infer") for size in (_SAMPLE, len(sample))]
    first, both = (sum(map(scalar_count, part.schema.types)) if part else 0 for part in parts)
    more = (both - first) * max(0, len(messages) - len(sample)) // max(1, len(sample) - _SAMPLE)
    return both + more


def _read(text: bytes, columns: Types, other_fields: Literal["error", "infer"]) -> pa.Table | None:
    try:
        return pyarrow.json.read_json(
            pa.BufferReader(text),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pyarrow.json.ParseOptions(pa.schema(list(columns.items())), unexpected_field_behavior=other_fields),
        )
    except pa.ArrowInvalid:
        return None


def has_field(messages: Sequence[bytes], name: str) -> bool:
    """Whether any message may contain a field of this name. ``False`` means that no message contains the field."""
    quoted = f'"{name}"'.encode()
    if any(quoted in message for message in messages):
        return True
    escaped = [message for message in messages if b"\\" in message]
    return bool(escaped) and _escape_of_any(name).search(b"\n".join(escaped)) is not None


def _escape_of_any(characters: str) -> re.Pattern[bytes]:
    """Returns a pattern that finds an escape of any of these characters. JSON field names may contain escapes."""
    units = {f"u{unit:04x}" for unit in memoryview(characters.encode("utf-16-le")).cast("H")}
    short = {_SHORT_ESCAPES[character] for character in characters if character in _SHORT_ESCAPES}
    either = "|".join(map(re.escape, sorted(units | short)))
    return re.compile(rf"\\(?i:{either})".encode())


def _is_one_object_each(messages: Sequence[bytes], text: bytes) -> bool:
    return (
        text.count(b"\n") == len(messages) - 1
        and all(messages)
        and set(map(_FIRST, messages)) == {ord("{")}
        and set(map(_LAST, messages)) == {ord("}")}
        and b"\r" not in text
        and b"\0" not in text
    )


def _is_deep(message: bytes) -> bool:
    """Whether the message may be nested too deeply to parse safely."""
    if message.count(b"{") + message.count(b"[") <= _SAFE_LEVELS:
        return False
    if b"\\" in message:
        message = _ESCAPED.sub(b"", message)
    # Only brackets and quotes remain. In most strings, the two quotes are now adjacent. If a string is not closed, the
    # line break before the next message is a syntax error.
    outside = message.translate(None, _NOT_STRUCTURE).replace(b'""', b"").split(b'"')[::2]
    brackets = b"".join(outside).translate(_STEPS)
    level = 0
    for start in range(0, len(brackets), _BRACKETS_AT_A_TIME):
        part = brackets[start : start + _BRACKETS_AT_A_TIME]
        steps = pa.Array.from_buffers(pa.int8(), len(part), [None, pa.py_buffer(part)]).cast(pa.int32())
        levels = pc.cumulative_sum(steps, start=level)
        if pc.max(levels).as_py() > _SAFE_LEVELS:
            return True
        level = levels[-1].as_py()
    return False


def _levels(kind: pa.DataType) -> int:
    """Returns the number of nested lists and structs."""
    return 1 + max(map(_levels, parts(kind)), default=0) if pa.types.is_nested(kind) else 0


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_exact(array: pa.Array, text: bytes) -> bool:
    """Whether all double values, also in nested fields of the array, equal the numbers in the JSON text."""
    if pa.types.is_struct(array.type):
        return all(_is_exact(field, text) for field in array.flatten())
    if pa.types.is_list(array.type):
        return _is_exact(array.values, text)
    if not pa.types.is_floating(array.type) or array.null_count == len(array):
        return True
    if not pc.all(pc.is_finite(array)).as_py():
        return False
    sizes = pc.min_max(pc.abs(array)).as_py()
    if sizes["max"] >= _EXACT and _LONG_INTEGER.search(text):
        return False
    return sizes["min"] != 0 or _MINUS_ZERO.search(text) is None
