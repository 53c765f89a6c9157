"""Reads the records of an Avro file as messages. The schema id 0 is in front of each record."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro

from app.model import RegisteredSchema, SchemaId

_BEGIN = b"Obj\x01"
_PREFIX = b"\0" + bytes(4)  # the schema id 0 in Confluent's wire format


def is_avro_file(data: bytes) -> bool:
    return data.startswith(_BEGIN)


class AvroFile:
    """An Avro file. ``values`` contains the messages. Raises ``ValueError`` if the file cannot be read."""

    def __init__(self, data: bytes) -> None:
        try:
            blocks = fastavro.block_reader(BytesIO(data))
            self._schema = RegisteredSchema("AVRO", str(blocks.metadata["avro.schema"]), ())
            plain = fastavro.parse_schema(_without_logical_types(json.loads(self._schema.text)))
            self.values = [_PREFIX + datum for block in blocks for datum in _datums(block, plain)]
        except Exception as error:  # for example a truncated file, or an unknown codec
            raise ValueError(f"it is not a complete Avro file: {error!r}") from error

    def find(self, _: SchemaId) -> RegisteredSchema:
        """Return the schema of the file. This function replaces a schema registry."""
        return self._schema


def _datums(block: Any, schema: Any) -> Iterator[bytes]:
    data: BytesIO = block.bytes_
    for _ in range(block.num_records):
        begin = data.tell()
        fastavro.schemaless_reader(data, schema, None)
        yield data.getvalue()[begin : data.tell()]


def _without_logical_types(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_logical_types(each) for each in node]
    if isinstance(node, dict):
        return {name: _without_logical_types(each) for name, each in node.items() if name != "logicalType"}
    return node
