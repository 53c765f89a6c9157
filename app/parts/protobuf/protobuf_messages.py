"""Reads Protobuf messages with the schemas in a registry, without generated code."""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter
from time import monotonic
from typing import Any, Final

from google.protobuf import json_format, wrappers_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from app.convert.bounds import MOST_OBJECTS
from app.convert.chunks import AllHeaders, Values
from app.convert.columns import Columns, infer
from app.convert.scalars import moment_at
from app.model import Pairs, RegisteredSchema, SchemaId
from app.parts.protobuf.protobuf_descriptors import compiled, descriptors, nested
from app.parts.registry.registered_schemas import RegisteredSchemas, payload
from app.reason_texts import Reason

_OWN_NAME: Final = "the schema of the record"
# Google's standard files. A file is after the files that it imports.
_NAMES: Final = "any descriptor duration empty field_mask source_context struct timestamp type api wrappers"
_STANDARD: Final = {
    f"google/protobuf/{name}.proto": import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR for name in _NAMES.split()
}
_SECONDS: Final = 30.0  # for compiling a schema with its references; 100 texts need 20 s
_NUMBER_BITS: Final = 35
_MORE: Final = 0x80  # the bit that is set in each byte of a number except the last byte
_OF_AN_OBJECT: Final = 4
_VARINT, _SIZED, _GROUP = 0, 2, 3  # wire types of fields
_FIXED: Final = {1: 8, 5: 4}  # size in bytes of values of the other wire types
_Read = Callable[[Any], Any]
_Readers = Callable[[Descriptor | EnumDescriptor], _Read]


class ProtobufSchema:
    """A schema: one Protobuf file, which defines types of messages.

    Raises:
        ValueError: The file cannot be used. The message contains the reason.
    """

    def __init__(self, registered: RegisteredSchema) -> None:
        pool = DescriptorPool()
        for file in _STANDARD.values():
            pool.AddSerializedFile(file.serialized_pb)
        added = {*_STANDARD}
        names, texts = (*registered.names, _OWN_NAME), (*registered.references, registered.text)
        self._is_of_glue = registered.is_of_glue
        deadline = monotonic() + _SECONDS
        for name, text in zip(names, texts, strict=True):
            if monotonic() > deadline:
                raise ValueError(Reason(f"its references take more than {_SECONDS:.0f} s to compile"))
            *imported, file = (compiled if self._is_of_glue else descriptors)(text)
            for import_ in imported:
                _add(pool, import_, import_.name, added)
            _add(pool, file, name, added)
        kinds = pool.FindFileByName(_OWN_NAME).message_types_by_name.values()
        if self._is_of_glue:
            kinds = sorted(nested(kinds, "nested_types"), key=attrgetter("full_name"))
        self._first = [*kinds]
        # The number of values in an empty message. The object is also counted.
        self._cells = cache(lambda kind: _OF_AN_OBJECT + sum(not field.has_presence for field in kind.fields))
        self._reader: _Readers = cache(lambda kind: _reader(kind, self._reader))
        self._by_path: dict[tuple[int, ...], _Messages | ValueError] = {}  # the error for a wrong path

    def read(self, data: bytes) -> Any:
        """Decode a message. The bytes begin with the path of the message's type in the file.

        Raises:
            ValueError: The path is wrong, or the bytes are not a message of this type.
        """
        path, size = self._path(data)
        return self._messages(path).read(data[size:])

    def read_all(self, data: Sequence[bytes]) -> list[Any]:
        """Decode many messages of one type. Raise ``ValueError`` if the messages have several types."""
        path, size = self._path(data[0])
        if any(each[:size] != data[0][:size] for each in data):
            raise ValueError("different messages")
        messages = self._messages(path)
        if messages.most_cells(data) > MOST_OBJECTS:
            raise ValueError("too much at once")
        return [messages.decoded(each[size:]) for each in data]

    def names(self, data: bytes) -> Collection[str]:
        return self._messages(self._path(data)[0]).names

    def _path(self, data: bytes) -> tuple[tuple[int, ...], int]:
        """Return the path of the message's type in the file, and the size of the path in bytes."""
        number, at = _number(data, 0)
        if self._is_of_glue:
            return (number,), at
        path = []
        for _ in range(number >> 1):  # Confluent uses zigzag encoding
            index, at = _number(data, at)
            path.append(index >> 1)
        return tuple(path) or (0,), at

    def _messages(self, path: tuple[int, ...]) -> "_Messages":
        if path not in self._by_path:
            descriptor = self._descriptor(path)
            try:
                self._by_path[path] = _Messages(descriptor, self._cells, self._reader)
            except RecursionError:
                self._by_path[path] = ValueError(Reason("its schema has messages within messages, in too many levels"))
            except Exception as error:  # noqa: BLE001 - as below
                reason = Reason(f"its schema cannot be used: {type(error).__name__}")
                self._by_path[path] = ValueError(reason.also("", f": {error}"))
        if isinstance(messages := self._by_path[path], ValueError):
            raise messages
        return messages

    def _descriptor(self, path: Sequence[int]) -> Descriptor:
        try:
            first, *inner = path
            descriptor: Descriptor = self._first[first]
            for index in inner:
                descriptor = descriptor.nested_types[index]
        except (ValueError, IndexError):
            raise ValueError(Reason("its schema has no message at the path").also("", f" {[*path]}")) from None
        return descriptor


class _Messages:
    def __init__(self, descriptor: Descriptor, cells: Callable[[Descriptor], int], reader: _Readers) -> None:
        self._class = GetMessageClass(descriptor)
        self._cells = cells
        self._widest = max(map(cells, _parts(descriptor)), default=0)
        self._value = reader(descriptor)
        self._descriptor = descriptor
        self._name = descriptor.full_name
        self.names = frozenset(descriptor.fields_by_name)

    def most_cells(self, data: Sequence[bytes]) -> int:
        """Return the maximum number of values in these messages. For example, two bytes may become a hundred zeros."""
        size = sum(map(len, data))
        return len(data) * self._cells(self._descriptor) + size + size // 2 * self._widest

    def _count(self, data: bytes) -> int:
        """Return the number of values in a message. Stop counting above ``MOST_OBJECTS``."""
        cells, parts = self._cells(self._descriptor), [(0, len(data), self._descriptor)]
        while parts and cells <= MOST_OBJECTS:
            at, end, descriptor = parts.pop()
            while at < end and cells <= MOST_OBJECTS:
                tag, at = _varint(data, at)
                if tag & 7 == _GROUP:
                    return MOST_OBJECTS + 1
                size, at = _varint(data, at) if tag & 7 in (_VARINT, _SIZED) else (_FIXED.get(tag & 7, end), at)
                if tag & 7 == _VARINT:
                    continue
                field = descriptor.fields_by_number.get(tag >> 3)
                if tag & 7 == _SIZED and field is not None and field.message_type is not None:
                    cells += self._cells(field.message_type)
                    parts.append((at, min(at + size, end), field.message_type))
                at += size
        return cells

    def read(self, data: bytes) -> Any:
        if self.most_cells([data]) > MOST_OBJECTS and self._count(data) > MOST_OBJECTS:
            raise ValueError(Reason("it would take too much memory"))
        return self.decoded(data)

    def decoded(self, data: bytes) -> Any:
        """Decode a message. The caller must check the number of values before."""
        try:
            return self._value(self._class.FromString(data))
        except Exception as error:  # usually a DecodeError; an unusual schema may cause any error
            raise ValueError(Reason(f"it does not fit the message {self._name}").also("", f": {error!r}")) from error


def _parts(descriptor: Descriptor) -> Collection[Descriptor]:
    """Return the types of all messages that a message of this type may contain, at any depth."""
    kinds: set[Any] = set()
    todo = [descriptor]
    while todo:
        new = {field.message_type for field in todo.pop().fields} - kinds - {None}
        kinds |= new
        todo += new
    return kinds


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & ~_MORE) << shift
        if not byte & _MORE or shift > _NUMBER_BITS:
            break
        shift += 7
    return number, at


def _add(pool: DescriptorPool, file: FileDescriptorProto, name: str, added: set[str]) -> None:
    """Add a file under this name. Remove imports that are missing, because only options may need these imports."""
    if name in added:
        return
    file.name = name
    public = [file.dependency[index] for index in file.public_dependency]
    imported = [dependency for dependency in file.dependency if dependency in added]
    del file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
    file.dependency.extend(imported)
    file.public_dependency.extend(imported.index(dependency) for dependency in public if dependency in added)
    try:
        pool.Add(file)
    except Exception as error:  # usually a TypeError
        raise ValueError(Reason("its schema cannot be used").also("", f": {error}")) from error
    added.add(name)


def _number(data: bytes, at: int) -> tuple[int, int]:
    number, end = _varint(data, at)
    if end == at or data[end - 1] & _MORE:
        raise ValueError(Reason("it does not say which message of the schema it is"))
    return number, end


# --- values -----------------------------------------------------------------------------------------------------------


def _reader(kind: Descriptor | EnumDescriptor, readers: _Readers) -> _Read:
    """Return a function that converts an enum's number to a name, or a message to an object without unset fields."""
    if kind.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[kind.full_name]
    if isinstance(kind, EnumDescriptor):
        names = {value.number: value.name for value in reversed(kind.values)}  # the first alias is used
        return lambda number: names.get(number, str(number))
    fields = [
        (field.name, field.has_presence and not field.has_default_value, _field(field, readers))
        for field in kind.fields
    ]

    def read(message: Any) -> dict[str, Any]:
        return {
            name: convert(getattr(message, name))
            for name, has_presence, convert in fields
            if not has_presence or message.HasField(name)
        }

    return read


def _field(field: FieldDescriptor, readers: _Readers) -> _Read:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key, value = _key, _scalar(kind.fields_by_name["value"], readers)
        return lambda entries: Pairs((key(name), value(entries[name])) for name in entries)
    convert = _scalar(field, readers)
    return (lambda values: [*map(convert, values)]) if field.is_repeated else convert


def _scalar(field: FieldDescriptor, readers: _Readers) -> _Read:
    if field.enum_type is not None:
        return readers(field.enum_type)
    if (kind := field.message_type) is None:
        return lambda value: value

    def read(message: Any) -> Any:
        return readers(kind)(message)  # created at the first value, because types may be recursive

    return read


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


_WELL_KNOWN: Final[dict[str, _Read]] = {
    "google.protobuf.Timestamp": lambda message: moment_at(message.seconds * 1_000_000 + message.nanos // 1_000),
    "google.protobuf.Duration": lambda message: float(message.seconds + message.nanos / 1e9),
    **dict.fromkeys(
        ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"), json_format.MessageToDict
    ),
    **{each.full_name: attrgetter("value") for each in wrappers_pb2.DESCRIPTOR.message_types_by_name.values()},
}


class ProtobufMessages(RegisteredSchemas[ProtobufSchema]):
    _format = "Protobuf"
    _schema = ProtobufSchema

    def _columns(self, schema: SchemaId, data: Sequence[bytes]) -> Columns:
        rows = self.get(schema).read_all(data)
        names = dict.fromkeys(name for row in rows for name in row)
        arrays = {name: array for name in names if (array := infer([row.get(name) for row in rows])) is not None}
        # For integers of more than 63 bits, Arrow infers a type that no column has.
        if len(arrays) < len(names) or any("uint" in str(array.type) for array in arrays.values()):
            raise ValueError("no type for all values")
        return arrays

    def has_field(self, values: Values, headers: AllHeaders, name: str) -> bool:
        payloads = (payload(*each) for each in zip(values, headers, strict=True))
        return any(name in self.get(schema).names(data) for schema, data in payloads)
