"""Reads messages in Avro whose schemas are in a registry: one by one, and many at once by schema."""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.avro_columns import ColumnReader, NotReadError
from app.convert.avro_schema import AvroSchema
from app.convert.columns import in_types
from app.convert.registered_schemas import Find, RegisteredSchemas, payloads
from app.model import Headers, RegisteredSchema, SchemaId
from app.reasons import Reason

_AVRO = "AVRO"


class AvroMessages:
    """Reads Avro by the schema of its writer; ``find`` asks the registry."""

    def __init__(self, find: Find, clock: Callable[[], float] = time.monotonic) -> None:
        self._schemas = RegisteredSchemas(find, _usable, clock)
        self.ask_with, self.read = self._schemas.ask_with, self._schemas.read

    def read_key(self, raw: bytes, headers: Headers | None) -> Any:
        """Decodes a key; see ``read``."""
        return self.read(raw, headers, is_key=True)

    def parse(
        self,
        values: Sequence[bytes],
        headers: Sequence[Headers | None],
        wanted: Mapping[str, pa.DataType],
        fixed: Container[str],
    ) -> Mapping[str, pa.Array] | None:
        """Returns the fields, or ``None`` if one of the values must be read by itself."""
        try:
            groups = [
                (places, in_types(self._columns(schema, data), wanted, fixed))
                for schema, (places, data) in payloads(values, headers).items()
            ]
        except (ValueError, NotReadError):
            return None
        together = groups[0][1] if len(groups) == 1 else _joined(groups)
        if together is None:
            return None
        return together | {name: pa.nulls(len(values), kind) for name, kind in wanted.items() if name not in together}

    def has_field(self, values: Sequence[bytes], headers: Sequence[Headers | None], name: str) -> bool:
        """Whether the schema of any of the values has this field."""
        return any(name in self._reader(schema).names for schema in payloads(values, headers))

    def _columns(self, schema: SchemaId, data: Sequence[bytes]) -> Mapping[str, pa.Array]:
        return self._reader(schema).read(data)

    def _reader(self, schema: SchemaId) -> ColumnReader:
        reader = self._schemas.get(schema).columns
        if reader is None:
            raise NotReadError
        return reader


def _usable(registered: RegisteredSchema) -> AvroSchema:
    if registered.kind != _AVRO:
        raise ValueError(Reason(f"its schema is {registered.kind} and not Avro"))
    return AvroSchema.parse(registered.text, registered.references)


def _joined(groups: Sequence[tuple[Sequence[int], Mapping[str, pa.Array]]]) -> dict[str, pa.Array] | None:
    """Joins the columns of values of several schemas in the order of the values; ``None`` if their types differ."""
    places = pa.array(chain.from_iterable(places for places, _ in groups), pa.int64())
    try:
        table = pa.concat_tables([pa.table(dict(arrays)) for _, arrays in groups], promote_options="default")
    except pa.ArrowException:
        return None
    table = table.take(pc.sort_indices(places)).combine_chunks()
    return {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}
