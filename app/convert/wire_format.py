"""Finds the schema id of a key or value: Confluent's wire format, in front of its bytes or in a header.

In Protobuf the data begin with the path of the message in its file, which stands in the header too if the id does.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from app.model import Headers, SchemaId
from app.reasons import Reason

_KEY_HEADER, _VALUE_HEADER = "__key_schema_id", "__value_schema_id"

_BY_NUMBER, _BY_GUID = b"\0", b"\1"
_NUMBER_BYTES, _GUID_BYTES = 5, 17


class Payload(NamedTuple):
    """Bytes, and the id of the schema that they were written with."""

    schema: SchemaId
    data: bytes


def payload(raw: bytes, headers: Headers | None, *, is_key: bool = False) -> Payload:
    """Splits a key or value of a message with these headers; ``ValueError`` if it has no id."""
    named, data = _named(raw, headers, _KEY_HEADER if is_key else _VALUE_HEADER)
    return Payload(_schema_id(named), data)


def payloads(
    values: Sequence[bytes], headers: Sequence[Headers | None]
) -> Mapping[SchemaId, tuple[Sequence[int], Sequence[bytes]]]:
    """Groups the bytes of many values by their schema, with their places; ``ValueError`` if one has no id."""
    if not any(headers) and {value[:1] for value in values} == {_BY_NUMBER}:  # the usual case, and 5 times as fast
        prefixes = [value[:_NUMBER_BYTES] for value in values]
        if len(set(prefixes)) == 1:
            return {_schema_id(prefixes[0]): (range(len(values)), [value[_NUMBER_BYTES:] for value in values])}
    found: dict[bytes, tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    for place, (value, its) in enumerate(zip(values, headers, strict=True)):
        named, rest = _named(value, its, _VALUE_HEADER)
        places, data = found[named]
        places.append(place)
        data.append(rest)
    return {_schema_id(named): of_schema for named, of_schema in found.items()}


def _named(raw: bytes, headers: Headers | None, header: str) -> tuple[bytes, bytes]:
    """Returns the bytes of the id, and the data. What a header has behind the id belongs to the data."""
    for name, content in headers or ():
        if name == header:
            found = content.encode() if isinstance(content, str) else content or b""
            return found[: (size := _size(found))], found[size:] + raw
    return raw[: (size := _size(raw))], raw[size:]


def _size(found: bytes) -> int:
    return _GUID_BYTES if found[:1] == _BY_GUID else _NUMBER_BYTES


def _schema_id(named: bytes) -> SchemaId:
    if named[:1] == _BY_NUMBER and len(named) == _NUMBER_BYTES:
        number = int.from_bytes(named[1:], signed=True)
        if number >= 0:
            return number
    if named[:1] == _BY_GUID and len(named) == _GUID_BYTES:
        return UUID(bytes=named[1:])
    raise ValueError(Reason("it has no schema id of a registry: neither its first bytes nor a header are Confluent's"))
