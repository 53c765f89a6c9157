"""The formats of keys and values, as one table. A new one is a row here, and a module of ``app.convert``."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Format(NamedTuple):
    """A format that quixstreams has by the same name, or that the class ``messages`` of ``app.convert`` reads."""

    messages: str = ""  # ``module:Class`` of what reads many values at once; without it each is read by itself
    keys_at_once: bool = False  # whether many keys are read at once too: as text, or by ``messages``
    is_of_keys: bool = True  # whether keys may have it
    needs_registry: bool = False  # whether its schemas are in a registry
    also: str = ""  # another name of it


FORMATS: Final[Mapping[str, Format]] = {
    "str": Format(keys_at_once=True, also="string"),
    "bytes": Format(),
    "double": Format(),
    "int": Format(also="integer"),
    "json": Format("json_parser:JsonMessages"),
    "quix": Format(),
    "avro": Format("avro_messages:AvroMessages", keys_at_once=True, needs_registry=True),
    "json-schema": Format("json_parser:JsonSchemaMessages", is_of_keys=False),
    "protobuf": Format("protobuf_messages:ProtobufMessages", is_of_keys=False, needs_registry=True),
}
