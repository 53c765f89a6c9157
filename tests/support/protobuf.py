"""Schemas and messages in Protobuf for tests, from descriptors that are made here."""

import base64
from collections.abc import Sequence
from typing import Any

from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from app.model import RegisteredSchema, SchemaId
from app.parts.protobuf.protobuf_messages import ProtobufMessages
from app.reason_texts import Reason

Fields = FieldDescriptorProto
STANDARD = (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2)


def message(name: str, *fields: FieldDescriptorProto, nested: Sequence[DescriptorProto] = ()) -> DescriptorProto:
    """A message, in which each field without a number gets the next one."""
    made = DescriptorProto(name=name, nested_type=nested)
    for number, field in enumerate(fields, 1):
        made.field.add().CopyFrom(field)
        made.field[-1].number = field.number or number
    return made


def field(name: str, kind: str, *, repeated: bool = False, **more: Any) -> FieldDescriptorProto:
    """A field of a type as in ``int64``, or of a message or an enum by its full name, as in ``.lab.Unit``."""
    label = Fields.LABEL_REPEATED if repeated else Fields.LABEL_OPTIONAL
    if not kind.startswith("."):
        return FieldDescriptorProto(name=name, label=label, type=f"TYPE_{kind.upper()}", **more)
    return FieldDescriptorProto(name=name, label=label, type_name=kind, **more)


def mapped(name: str, of: str, key: str, value: FieldDescriptorProto) -> tuple[FieldDescriptorProto, DescriptorProto]:
    """A map in the message ``of``, by its full name, and the type of its entries, which is nested there."""
    entry = message(f"{name.capitalize()}Entry", field("key", key), value)
    entry.options.map_entry = True
    return field(name, f"{of}.{entry.name}", repeated=True), entry


def file(*messages: DescriptorProto, name: str = "a.proto", **more: Any) -> FileDescriptorProto:
    return FileDescriptorProto(name=name, syntax="proto3", message_type=messages, **more)


def registered(schema: FileDescriptorProto, *references: FileDescriptorProto) -> RegisteredSchema:
    """A schema as the registry gives it."""
    texts = tuple(base64.b64encode(each.SerializeToString()).decode() for each in (schema, *references))
    return RegisteredSchema("PROTOBUF", texts[0], texts[1:], tuple(each.name for each in references))


def framed(number: int, data: bytes, path: bytes = b"\0") -> bytes:
    """A message with the id of its schema and its path in front of it, as Confluent's serializers put them."""
    return b"\0" + number.to_bytes(4) + path + data


def class_of(name: str, *files: FileDescriptorProto) -> Any:
    """As a compiler would generate it."""
    pool = DescriptorPool()
    for module in STANDARD:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for each in files:
        pool.Add(each)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def opened(*schemas: RegisteredSchema) -> ProtobufMessages:
    def find(schema: SchemaId) -> RegisteredSchema:
        if schema not in range(1, len(schemas) + 1):
            raise ValueError(Reason("the registry has no schema with its id"))
        return schemas[int(str(schema)) - 1]

    return ProtobufMessages(find)
