"""Reads messages with a schema in JSON Schema: JSON behind the id of the schema, which nobody asks the registry for."""

from collections.abc import Sequence
from typing import Any

from app.convert.chunks import AllHeaders, Values
from app.convert.json_parser import JsonMessages
from app.json_texts import loads
from app.model import Headers
from app.parts.registry.registered_schemas import payload, payloads


class JsonSchemaMessages(JsonMessages):
    """Parses messages where the id of a schema, which nobody asks for, stands before the JSON or in a header."""

    def _json_of(self, values: Values, headers: AllHeaders) -> Sequence[bytes]:
        groups = payloads(values, headers).values()
        by_place = {place: each for group in groups for place, each in zip(*group, strict=True)}
        return [by_place[place] for place in range(len(values))]

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False, _: str = "") -> Any:
        """Decodes a single one; ``ValueError`` if it has no id, or is no JSON."""
        return loads(payload(raw, headers, is_key=is_key)[1])
