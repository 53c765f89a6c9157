"""Reads messages in Protobuf whose schemas are in a registry."""

import time
from collections.abc import Callable, Container, Mapping, Sequence

import pyarrow as pa

from app.convert.columns import in_types, infer
from app.convert.protobuf_schema import ProtobufSchema
from app.convert.registered_schemas import Find, RegisteredSchemas, payload, payloads
from app.model import Headers


class ProtobufMessages:
    """Reads Protobuf by the schema of its writer; ``find`` asks the registry."""

    def __init__(self, find: Find, clock: Callable[[], float] = time.monotonic) -> None:
        self._schemas = RegisteredSchemas(find, ProtobufSchema, clock)
        self.ask_with, self.read = self._schemas.ask_with, self._schemas.read

    def parse(
        self,
        values: Sequence[bytes],
        headers: Sequence[Headers | None],
        wanted: Mapping[str, pa.DataType],
        fixed: Container[str],
    ) -> Mapping[str, pa.Array] | None:
        """Returns the fields, or ``None`` if one of the values must be read by itself."""
        try:
            (schema, (_, data)), *others = payloads(values, headers).items()
            if others:
                return None
            rows = self._schemas.get(schema).read_all(data)
            names = dict.fromkeys(name for row in rows for name in row)
            arrays = {name: array for name in names if (array := infer([row.get(name) for row in rows])) is not None}
            if len(arrays) < len(names) or any(map(_has_unsigned, arrays.values())):
                return None
            columns = in_types(arrays, wanted, fixed)
        except (ValueError, AttributeError):  # of a value that is no object
            return None
        return columns | {name: pa.nulls(len(values), kind) for name, kind in wanted.items() if name not in columns}

    def has_field(self, values: Sequence[bytes], headers: Sequence[Headers | None], name: str) -> bool:
        """Whether the message of any of the values has this field."""
        found = (payload(*each) for each in zip(values, headers, strict=True))
        return any(name in self._schemas.get(each.schema).names(each.data) for each in found)


def _has_unsigned(array: pa.Array) -> bool:
    """Whether Arrow has found whole numbers of more than 63 bits, for which no column has a type."""
    return "uint" in str(array.type)
