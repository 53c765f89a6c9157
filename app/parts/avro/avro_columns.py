"""Reads many Avro datums at a time. The datums' bytes are put into an Avro container, which Polars reads into columns.

The container's schema has different types for the same bytes. Integers are ``long``, because Polars truncates an
``int``. Enums are read as numbers, because Polars panics at enums with nulls. Booleans are read as one byte. Then Arrow
converts the columns to the types of the original schema.
"""

import io
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import UUID

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException

from app.convert.bounds import DAY_MICROS, DAYS, MAX_DEPTH, MAX_SCALARS, MICROSECONDS, MOST_CELLS
from app.convert.scalars import UNZONED, ZONED
from app.parts.avro.avro_fit import Node
from app.table.type_names import MAX_DIGITS

# The prefix of logical types with readers of this package. fastavro's readers raise errors, and round decimals.
OURS = "lake-"
_SYNC = bytes(16)
_MARK_BYTES = 12
_SMALL = 0b0011_1110  # a mask for bytes that Avro reads as the numbers 0 to 31
_DECIMAL_BYTES = 16
_CELL_BYTES = 8
_BYTE = {"type": "fixed", "size": 1}

_Convert = Callable[[pa.Array], pa.Array]


class NotReadError(ValueError):
    """These datums, or all datums with this schema, must be read one by one."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the values of a node of the schema.

    Attributes:
        kind: The type in the container.
        least: The minimum size of a value in bytes.
        scalars: The number of cells in each value, without the elements of lists.
        cells_of_a_byte: The maximum number of cells per byte in lists.
    """

    kind: Node
    convert: _Convert
    least: int = 1
    scalars: int = 1
    cells_of_a_byte: float = 0.0


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads datums whose schema is a record."""

    names: Sequence[str]
    _header: bytes
    _readers: Sequence[_Reader]

    def read(self, datums: Sequence[bytes]) -> Mapping[str, pa.Array]:
        """Return a column for each field. The types are the types that Arrow infers from the single values.

        Raises:
            NotReadError: A datum was not written with this schema, or this reader cannot convert a value.
        """
        # Random bytes follow each datum. If a datum is too short or too long, Polars does not find these bytes where
        # they should be. The bytes are small numbers, because Polars panics if a text is too long.
        mark = bytes(byte & _SMALL for byte in os.urandom(_MARK_BYTES))
        body = mark.join([*datums, b""])
        scalars = sum(reader.scalars for reader in self._readers)
        cells = len(datums) * scalars + len(body) * max(reader.cells_of_a_byte for reader in self._readers)
        if cells > MOST_CELLS:
            raise NotReadError
        block = _long(len(datums)) + _long(len(body)) + body + _SYNC
        try:
            table = pl.read_avro(io.BytesIO(self._header + block)).to_arrow()
            *columns, marks = (column.combine_chunks() for column in table.columns)
            if table.num_rows != len(datums) or not pc.all(pc.equal(marks, mark)).as_py():
                raise NotReadError
            arrays = [reader.convert(column) for reader, column in zip(self._readers, columns, strict=True)]
        except (pl.exceptions.PolarsError, PanicException, OSError, pa.ArrowException) as error:
            raise NotReadError from error
        return dict(zip(self.names, arrays, strict=True))


def columns_of(schema: Node, named: Mapping[str, Node]) -> ColumnReader | None:
    """Return the reader for a schema; ``None`` if Polars cannot read the schema. ``named`` are referenced schemas."""
    if not isinstance(schema, dict) or schema["type"] != "record" or not schema["fields"]:
        return None
    of_nodes = _Readers(named)
    try:
        readers = [of_nodes.reader(each["type"], 1) for each in schema["fields"]]
    except NotReadError:
        return None
    kinds = [*(reader.kind for reader in readers), {"type": "fixed", "size": _MARK_BYTES, "name": "mark"}]
    container = {"type": "record", "name": "datum", "fields": _fields(kinds)}
    meta = {"avro.schema": json.dumps(container).encode(), "avro.codec": b"null"}
    entries = b"".join(_bytes(name.encode()) + _bytes(value) for name, value in meta.items())
    header = b"Obj\x01" + _long(len(meta)) + entries + _long(0) + _SYNC
    return ColumnReader([each["name"] for each in schema["fields"]], header, readers)


def _fields(kinds: Iterable[Node]) -> list[Node]:
    return [{"name": f"f{index}", "type": kind} for index, kind in enumerate(kinds)]


class _Readers:
    """Creates the readers for the nodes of a schema. Nodes may refer to ``named`` schemas."""

    def __init__(self, named: Mapping[str, Node]) -> None:
        self._named = named
        self._scalars = 0
        self._names = map("n{}".format, itertools.count())

    def reader(self, node: Node, depth: int) -> _Reader:
        if depth > MAX_DEPTH:  # for example a recursive record
            raise NotReadError
        if isinstance(node, list):
            return self._optional(node, depth)
        if isinstance(node, str):
            node = self._named.get(node, {"type": node})
        if node["type"] == "record":
            return self._record(node, depth)
        if node["type"] == "array":
            return _list(self.reader(node["items"], depth + 1))
        if node["type"] == "map":  # has the same bytes as an array of pairs
            pair = [{"name": "key", "type": "string"}, {"name": "value", "type": node["values"]}]
            return _list(self._record({"fields": pair}, depth), is_map=True)
        self._scalars += 1
        if self._scalars > MAX_SCALARS:  # a few names that refer to each other can become billions of fields
            raise NotReadError
        return _scalar(node, next(self._names))

    def _optional(self, union: list[Node], depth: int) -> _Reader:
        others = [each for each in union if each not in ("null", {"type": "null"})]
        if len(union) != 2 or len(others) != 1:  # noqa: PLR2004 - null and another type
            raise NotReadError
        reader = self.reader(others[0], depth)
        return replace(reader, kind=[reader.kind if each is others[0] else "null" for each in union], least=1)

    def _record(self, node: Node, depth: int) -> _Reader:
        names = [each["name"] for each in node["fields"]]
        if not names:
            raise NotReadError
        readers = [self.reader(each["type"], depth + 1) for each in node["fields"]]
        kind = {"type": "record", "name": next(self._names), "fields": _fields(reader.kind for reader in readers)}

        def convert(array: pa.Array) -> pa.Array:
            children = [reader.convert(child) for reader, child in zip(readers, array.flatten(), strict=True)]
            return pa.StructArray.from_arrays(children, names, mask=array.is_null())

        least, scalars = sum(reader.least for reader in readers), sum(reader.scalars for reader in readers)
        return _Reader(kind, convert, least, scalars, max(reader.cells_of_a_byte for reader in readers))


def _list(items: _Reader, *, is_map: bool = False) -> _Reader:
    def convert(array: pa.Array) -> pa.Array:
        offsets, mask = array.offsets.cast(pa.int32()), array.is_null() if array.null_count else None
        lists = pa.ListArray.from_arrays(offsets, items.convert(array.values), mask=mask)
        if not is_map:
            return lists
        keys, values = lists.values.flatten()
        pairs = pa.table([pc.list_parent_indices(lists), keys], ["row", "key"])
        if pairs.group_by(pairs.column_names).aggregate([]).num_rows < len(keys):
            raise NotReadError  # the last of two equal keys wins
        return pa.MapArray.from_arrays(offsets, keys, values, mask=mask)

    cells = max(items.cells_of_a_byte, items.scalars / items.least)
    return _Reader({"type": "array", "items": items.kind}, convert, cells_of_a_byte=cells)


def _scalar(node: Node, name: str) -> _Reader:
    kind = node["type"]
    logical = (node.get("logicalType") or "").removeprefix(OURS)
    if kind == "enum":
        texts = pa.array(node["symbols"], pa.string())
        return _Reader("long", lambda array: texts.take(_within(array, 0, len(texts) - 1)))
    if kind == "boolean":
        return _Reader(_BYTE | {"name": name}, _booleans)
    if logical in _LOGICAL:
        return _Reader("long", _LOGICAL[logical])
    if node.get("size") == 0:  # a small array could contain billions of elements
        raise NotReadError
    if logical == "decimal":
        return _decimal(node, name)
    if kind == "fixed":
        of_fixed = _uuids if logical == "uuid" else _as(pa.binary())
        size = node["size"]
        # A null value needs as much memory as any other value.
        return _Reader({"type": "fixed", "size": size, "name": name}, of_fixed, size, max(1, size // _CELL_BYTES))
    if kind not in _PLAIN:
        raise NotReadError
    return _PLAIN[kind]


def _decimal(node: Node, name: str) -> _Reader:
    scale = node.get("scale", 0)
    if scale > MAX_DIGITS or node.get("size", 0) > _DECIMAL_BYTES:
        raise NotReadError
    kind = {"type": node["type"], "logicalType": "decimal", "precision": MAX_DIGITS, "scale": scale}
    nines = (9,) * MAX_DIGITS  # Polars and Arrow do not check the digits
    first, last = Decimal((1, nines, -scale)), Decimal((0, nines, -scale))
    of_type = {"size": node["size"], "name": name} if node["type"] == "fixed" else {}
    return _Reader(kind | of_type, lambda array: _within(array, first, last))


def _as(kind: pa.DataType) -> _Convert:
    return lambda array: array.cast(kind)


def _booleans(array: pa.Array) -> pa.Array:
    is_true = pc.equal(array, b"\1")
    if not pc.all(pc.or_(is_true, pc.equal(array, b"\0"))).as_py():
        raise NotReadError
    return is_true


def _uuids(array: pa.Array) -> pa.Array:
    return pa.array([None if raw is None else str(UUID(bytes=raw)) for raw in array.to_pylist()], pa.string())


def _within(array: pa.Array, first: int | Decimal, last: int | Decimal) -> pa.Array:
    bounds = pc.min_max(array).as_py()
    if bounds["min"] is not None and not (first <= bounds["min"] and bounds["max"] <= last):
        raise NotReadError
    return array


def _times(micros: int) -> _Convert:
    """Return a function that converts times to ISO texts, because Spark cannot write a time of day to Parquet."""

    def convert(array: pa.Array) -> pa.Array:
        numbers = pc.multiply(_within(array, 0, DAY_MICROS // micros - 1), micros)
        texts = numbers.cast(pa.time64("us")).cast(pa.string())
        return pc.replace_substring_regex(texts, r"\.000000$", "")

    return convert


def _moments(unit: str, kind: pa.DataType) -> _Convert:
    first, last = (each // (1 if unit == "us" else 1_000) for each in MICROSECONDS)
    return lambda array: _within(array, first, last).cast(pa.timestamp(unit, kind.tz)).cast(kind)


_LOGICAL: Mapping[str, _Convert] = {
    "date": lambda array: _within(array, *DAYS).cast(pa.int32()).cast(pa.date32()),
    "time-millis": _times(1_000),
    "time-micros": _times(1),
    "timestamp-millis": _moments("ms", ZONED),
    "timestamp-micros": _moments("us", ZONED),
    "local-timestamp-millis": _moments("ms", UNZONED),
    "local-timestamp-micros": _moments("us", UNZONED),
}
_PLAIN: Mapping[str, _Reader] = {
    "int": _Reader("long", _as(pa.int64())),
    "long": _Reader("long", _as(pa.int64())),
    "float": _Reader("float", _as(pa.float64()), 4),
    "double": _Reader("double", _as(pa.float64()), 8),
    "bytes": _Reader("bytes", _as(pa.binary())),
    "string": _Reader("string", _as(pa.string())),
}


def _long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while number & ~0x7F:
        encoded.append((number & 0x7F) | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _bytes(raw: bytes) -> bytes:
    return _long(len(raw)) + raw
