"""JSON messages → Arrow columns in one go, in C++: only where the outcome is surely that of the way record by record.

Whatever Arrow's parser sees otherwise than a JSON library would, or might, is not parsed here: ``parse`` says so, and
the messages go the slow way. What is told apart, and how:

- One message, one object. Messages are parsed as lines, but to the parser a line ends nothing. If every message begins
  with a brace and ends with one and none holds a line break, an object that is open at the end of a message makes a
  syntax error of the next one; so as many objects as messages means that each message is one.
- Numbers in double columns: whole numbers with more digits than a double has, ``-0``, and ``NaN``, which is no JSON.
- Text that is not UTF-8, which Arrow would carry on.
- ``{}``, which means null.
"""

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from app.columns import accepts, recast

_NATIVE = frozenset({pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()})
_EXACT = float(2**53)  # from here on a double does not hold every whole number
_LONG_INTEGER = re.compile(rb"[\[:,\s]-?\d{16,}[,\]}\s]")


def is_native(kind: pa.DataType) -> bool:
    """Whether columns of this type are read of JSON without a rule of ours in between."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(is_native(field.type) for field in kind)
    if pa.types.is_list(kind):
        return is_native(kind.value_type)
    return kind in _NATIVE


def parse(messages: Sequence[bytes], columns: Mapping[str, pa.DataType]) -> Mapping[str, pa.Array] | None:
    """Parse JSON objects.

    Args:
        messages: at least one, each to be one JSON object.
        columns: fields and their types, see ``is_native``.

    Returns:
        The fields by name, as long as ``messages``: those of ``columns``, and others that occur, in Arrow's types.
        ``None`` where the outcome would or might not be that of a JSON library and ``app.fitting``.
    """
    text = b"\n".join(messages)
    if not _is_one_object_each(text, len(messages)) or not _is_utf8(text):
        return None
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pyarrow.json.ParseOptions(explicit_schema=pa.schema(list(columns.items()))),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(messages):
        return None
    arrays = {name: _one(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    if not all(accepts(kind, arrays[name].type) for name, kind in columns.items()):
        return None  # an object has fields that are new
    if not all(_is_exact(array, text) for array in arrays.values()):
        return None
    return {name: recast(array, columns[name]) if name in columns else array for name, array in arrays.items()}


def has_field(messages: Sequence[bytes], name: str) -> bool:
    """Whether a field of this name may occur in any of the messages; ``False`` is certain."""
    quoted = f'"{name}"'.encode()
    return any(quoted in message or b"\\" in message for message in messages)


def _is_one_object_each(text: bytes, messages: int) -> bool:
    breaks = messages - 1
    return (
        text[:1] == b"{"
        and text[-1:] == b"}"
        and text.count(b"\n") == breaks
        and text.count(b"}\n{") == breaks
        and b"\r" not in text
    )


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_exact(array: pa.Array, text: bytes) -> bool:
    """Whether the numbers in a double column, or in one inside a column, are those of the text."""
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
    return sizes["min"] != 0 or not _has_minus_zero(text)


def _has_minus_zero(text: bytes) -> bool:
    """Whether ``-0`` may be in it, which is the whole number 0, unlike ``-0.0``."""
    return any(b"-0" + end in text for end in (b",", b"}", b"]", b" ", b"\t"))
