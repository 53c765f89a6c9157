"""Schemas and datums of Avro for tests: written with fastavro, or as a generator draws them."""

import io
import json
import struct
from collections.abc import Iterator, Mapping
from itertools import count
from random import Random
from typing import Any

import fastavro

from app.model import RegisteredSchema, SchemaId
from app.reason_texts import Reason

INT64 = (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63))
_DAY_MICROS = 86_400_000_000
_LOGICAL: Mapping[str, tuple[Any, tuple[int, ...]]] = {
    "date": ("int", (0, -1, 20_000, -719_162, 2_932_896)),
    "time-millis": ("int", (0, 1_000, 1_001, 86_399_999)),
    "time-micros": ("long", (0, 1_000_000, 1, _DAY_MICROS - 1)),
    "timestamp-millis": ("long", (0, -1, 1_700_000_000_123)),
    "timestamp-micros": ("long", (0, -1, 1_700_000_000_123_456)),
    "timestamp-nanos": ("long", (0, 1_700_000_000_123_456_789)),
    "local-timestamp-millis": ("long", (0, -1, 1_700_000_000_123)),
    "local-timestamp-micros": ("long", (0, -1, 1_700_000_000_123_456)),
}
_BEYOND = (2**31 - 1, -(2**31), 2**63 - 1)  # of what most logical types can show


def record(*fields: tuple[str, Any], name: str = "Reading") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields]}


def datum(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def framed(number: int, data: bytes) -> bytes:
    """Bytes with the id of their schema in front of them, as Confluent's serializers put it."""
    return b"\0" + number.to_bytes(4) + data


class MemoryRegistry:
    """Has these schemas by their ids; counts how often it is asked."""

    def __init__(self, schemas: Mapping[SchemaId, Any]) -> None:
        self.schemas = {key: RegisteredSchema("AVRO", json.dumps(each)) for key, each in schemas.items()}
        self.asked: list[SchemaId] = []

    def find(self, schema: SchemaId) -> RegisteredSchema:
        self.asked.append(schema)
        if schema not in self.schemas:
            raise ValueError(Reason("the registry has no schema with its id"))
        return self.schemas[schema]


def encoded(number: int) -> bytes:
    number = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = bytearray()
    while number & ~0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    return bytes([*out, number])


class Generator:
    """Draws schemas, and datums that fit them; ``beyond``: also numbers that their logical type cannot show."""

    def __init__(self, seed: int, *, beyond: bool = False) -> None:
        self.random = Random(seed)  # noqa: S311 - no secret
        self._beyond = beyond
        self._names: Iterator[int] = count()

    def record(self, depth: int = 3) -> dict[str, Any]:
        fields = range(self.random.randint(1, 4))
        return record(*((f"f{index}", self.schema(depth)) for index in fields), name=self._name())

    def schema(self, depth: int) -> Any:
        drawn = self.random.random()
        if depth and drawn < 0.15:
            return self.record(depth - 1)
        if depth and drawn < 0.3:
            return {"type": "array", "items": self.schema(depth - 1)}
        if depth and drawn < 0.5:
            inner = self.schema(self.random.choice([0, depth - 1]))
            return inner if isinstance(inner, list) else self.random.choice([["null", inner], [inner, "null"]])
        if depth and drawn < 0.52:
            return {"type": "map", "values": self.schema(depth - 1)}
        return ["null", "long", "string"] if drawn < 0.53 else self._scalar()

    def _scalar(self) -> Any:
        if self.random.random() < 0.4:
            logical = self.random.choice(list(_LOGICAL))
            return {"type": _LOGICAL[logical][0], "logicalType": logical}
        decimal = {"logicalType": "decimal", "precision": 10, "scale": self.random.choice([0, 2, 10])}
        return self.random.choice(
            [
                *("int", "long", "float", "double", "string", "bytes", "boolean", {"type": "string"}),
                {"type": "enum", "name": self._name(), "symbols": ["A", "B", "C"]},
                {"type": "fixed", "name": self._name(), "size": self.random.choice([1, 3])},
                {"type": "fixed", "name": self._name(), "size": 12, "logicalType": "duration"},
                {"type": "fixed", "name": self._name(), "size": 16, "logicalType": "uuid"},
                {"type": "string", "logicalType": "uuid"},
                {"type": "bytes"} | decimal,
                {"type": "fixed", "name": self._name(), "size": 8} | decimal,
                {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 20},
            ]
        )

    def _name(self) -> str:
        return f"N{next(self._names)}"

    def datum(self, schema: Any) -> bytes:
        if isinstance(schema, list):
            branch = self.random.randrange(len(schema))
            return encoded(branch) + self.datum(schema[branch])
        node: dict[str, Any] = {"type": schema} if isinstance(schema, str) else schema
        match node["type"]:
            case "record":
                return b"".join(self.datum(each["type"]) for each in node["fields"])
            case "array":
                return b"".join(self._block(node["items"]) for _ in range(self.random.choice([0, 0, 1, 2]))) + b"\0"
            case "map":
                return encoded(2) + b"".join(b"\2" + key + self.datum(node["values"]) for key in (b"a", b"b")) + b"\0"
        return self._value(node)

    def _block(self, items: Any) -> bytes:
        number = self.random.randint(1, 3)
        block = b"".join(self.datum(items) for _ in range(number))
        return encoded(number) + block if self.random.random() < 0.7 else encoded(-number) + encoded(len(block)) + block

    def _value(self, node: Any) -> bytes:
        choice = self.random.choice
        if node.get("logicalType") in _LOGICAL:
            _, usual = _LOGICAL[node["logicalType"]]
            return encoded(choice(_BEYOND) if self._beyond and self.random.random() < 0.1 else choice(usual))
        texts = ("", "é", "abc", "00000000-0000-0000-0000-000000000005")
        raw = (b"", b"\0", b"\xff", b"\x12\x34", b"\x80" * 9, *([b"\1" * 20] if self._beyond else []))
        drawn: dict[str, Any] = {
            "null": lambda: b"",
            "boolean": lambda: choice([b"\0", b"\1"]),
            "int": lambda: encoded(choice([0, 1, -1, 2**31 - 1, -(2**31)])),
            "long": lambda: encoded(choice(INT64)),
            "float": lambda: struct.pack("<f", choice([0.0, -0.0, 1.1, float("nan"), float("inf"), 3.0])),
            "double": lambda: struct.pack("<d", choice([0.0, -0.0, 1.1, float("nan"), 1e300, 3.0])),
            "string": lambda: self._sized(choice(texts).encode()),
            "bytes": lambda: self._sized(choice(raw)),
            "enum": lambda: encoded(self.random.randrange(len(node["symbols"]))),
            "fixed": lambda: self.random.randbytes(node["size"]),
        }
        drawn_bytes: bytes = drawn[node["type"]]()
        return drawn_bytes

    def _sized(self, raw: bytes) -> bytes:
        return encoded(len(raw)) + raw

    def spoiled(self, good: bytes) -> bytes:
        """A datum that is cut off, or too long, or has other bytes."""
        kind = self.random.choice(["short", "long", "other"])
        if kind == "short":
            return good[: self.random.randrange(len(good))] if good else b"x"
        if kind == "long" or not good:
            return good + self.random.randbytes(self.random.randint(1, 4))
        other = bytearray(good)
        for _ in range(2):
            other[self.random.randrange(len(other))] = self.random.choice([0, 1, 3, 4, 5, 254, 255])
        return bytes(other)
