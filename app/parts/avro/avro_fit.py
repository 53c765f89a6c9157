"""Checks that a datum fits its Avro schema, before fastavro decodes the datum.

fastavro's compiled reader crashes the process if a datum has too many levels. The reader also decodes some short datums
to gigabytes, and accepts a negative number of a branch or symbol as an index from the end.
"""

from collections.abc import Callable, Mapping
from typing import Any

from app.convert.bounds import MOST_OBJECTS

Node = Any  # a node of a schema in JSON: str | list[Node] | dict[str, Node]

_CELLS_OF_A_BYTE = 16  # maximum cells per byte of a datum; without a limit, array items without bytes fill the memory
_LEAST_CELLS = 100
_CELLS_OF_A_DICT, _CELLS_OF_A_LIST = 4, 2  # memory of an empty dict and an empty list, in cells
_LONGEST_NUMBER = 70  # maximum bits of a number: 7 bits in each of ten bytes


class _Datum:
    """A datum, and the position of the first byte that is not checked yet."""

    __slots__ = ("_at", "_cells_left", "_data")

    def __init__(self, data: bytes, least_cells: int) -> None:
        self._data = data
        self._at = 0
        self._cells_left = min(MOST_OBJECTS, least_cells + _CELLS_OF_A_BYTE * len(data))

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def skip(self, size: int) -> None:
        if not 0 <= size <= self.left:
            raise ValueError(f"{self.left:,} bytes are left for a value of {size:,}")
        self._at += size

    def skip_sized(self) -> None:
        self.skip(self.number())

    def skip_boolean(self) -> None:
        if self._data[self._at : self._at + 1] not in (b"\0", b"\1"):
            raise ValueError("a boolean is neither true nor false")
        self._at += 1

    def number(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        encoded, shift = byte & 0x7F, 7
        while byte >= 0x80:  # noqa: PLR2004 - the highest bit says that more bytes follow
            if shift == _LONGEST_NUMBER:
                raise ValueError("a number has no end")
            byte = self._data[self._at]
            self._at += 1
            encoded |= (byte & 0x7F) << shift
            shift += 7
        return (encoded >> 1) ^ -(encoded & 1)

    def take(self, cells: int) -> None:
        self._cells_left -= cells
        if self._cells_left < 0:
            raise ValueError("it would take too much memory")


_Fit = Callable[[_Datum], object]


class DatumCheck:
    """Checks datums of one schema. fastavro must have parsed the schema."""

    def __init__(self, schema: Node, named: Mapping[str, Node]) -> None:
        self._named = named
        self._fits_by_name: dict[str, _Fit] = {}
        self._least_cells = _LEAST_CELLS
        self._fit = self._fit_of(schema)

    def __call__(self, data: bytes) -> None:
        """Raise an error if the datum was not written with this schema, or needs too much memory when decoded."""
        datum = _Datum(data, self._least_cells)
        self._fit(datum)
        if datum.left:
            raise ValueError(f"{datum.left:,} bytes are left")

    def _fit_of(self, node: Node) -> _Fit:
        self._least_cells += _CELLS_OF_A_DICT
        if isinstance(node, list):
            return _numbered([self._fit_of(each) for each in node])
        if isinstance(node, str):
            return _PRIMITIVES.get(node) or self._fits_by_name.get(node) or self._fit_of(self._named[node])
        match node["type"]:
            case "record":
                return self._record(node)
            case "array" | "map" as kind:
                return _blocks(self._fit_of(node["items" if kind == "array" else "values"]), has_keys=kind == "map")
            case "enum":
                return _numbered([_PRIMITIVES["null"]] * len(node["symbols"]))
            case "fixed":
                size = node["size"]
                return lambda datum: datum.skip(size)
        return _PRIMITIVES[node["type"]]

    def _record(self, node: Node) -> _Fit:
        fields: list[_Fit] = []

        def fit(datum: _Datum) -> None:
            datum.take(_CELLS_OF_A_DICT + len(fields))
            for field in fields:
                field(datum)

        self._fits_by_name[node["name"]] = fit  # set before the fields, which may refer to this record
        fields += [self._fit_of(each["type"]) for each in node["fields"]]
        return fit


def _numbered(branches: list[_Fit]) -> _Fit:
    def fit(datum: _Datum) -> None:
        number = datum.number()
        if not 0 <= number < len(branches):
            raise ValueError(f"{number} is not the number of a branch or symbol")
        branches[number](datum)

    return fit


def _blocks(item: _Fit, *, has_keys: bool) -> _Fit:
    def fit(datum: _Datum) -> None:
        datum.take(_CELLS_OF_A_LIST)
        while number := datum.number():
            if number < 0:
                datum.number()  # skips the size of the block
            datum.take(abs(number))
            for _ in range(abs(number)):
                if has_keys:
                    datum.skip_sized()
                item(datum)

    return fit


_PRIMITIVES: Mapping[str, _Fit] = {
    "null": lambda _: None,
    "boolean": _Datum.skip_boolean,
    "int": _Datum.number,
    "long": _Datum.number,
    "float": lambda datum: datum.skip(4),
    "double": lambda datum: datum.skip(8),
    "bytes": _Datum.skip_sized,
    "string": _Datum.skip_sized,
}
