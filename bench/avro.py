"""Messages as Avro, as Confluent's serializers write them: a zero byte, the id of the schema, the values."""

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import fastavro
import orjson

from dev.broker import Record

TYPES = {int: "long", float: "double", str: "string"}


def schema_of(message: str | bytes) -> dict[str, Any]:
    """The schema of a message in JSON; none of its values may be null."""
    fields = [{"name": name, "type": TYPES[type(value)]} for name, value in json.loads(message).items()]
    return {"type": "record", "name": "Reading", "fields": fields}


def as_avro(records: Iterable[Record], schema_id: int) -> Iterator[Record]:
    """Yield records with their values in Avro instead of JSON; all are to have the schema of the first one."""
    head = b"\0" + schema_id.to_bytes(4)
    schema: Any = None
    for key, value, timestamp, partition in records:
        schema = schema or fastavro.parse_schema(schema_of(value or b""))
        stream = io.BytesIO()
        stream.write(head)
        fastavro.schemaless_writer(stream, schema, orjson.loads(value or b""))
        yield key, stream.getvalue(), timestamp, partition
