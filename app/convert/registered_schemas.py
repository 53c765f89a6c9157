"""The schemas of a registry that records name by their ids: each is asked for once, and an unknown one now and then."""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from app.convert.wire_format import payload
from app.model import Headers, RegisteredSchema, SchemaId

_UNKNOWN_SECONDS = 30.0  # a registry may have replicas, which get a new schema later
_MOST_UNKNOWN = 10_000


class _Reads(Protocol):
    def read(self, data: bytes, /) -> Any: ...


_Schema = TypeVar("_Schema", bound=_Reads)

Find = Callable[[SchemaId], RegisteredSchema | None]
"""Asks the registry: ``None`` for an unknown id; raises ``RetryableError`` without an answer."""


class RegisteredSchemas(Generic[_Schema]):
    """Knows schemas by their ids.

    Args:
        parse: makes a schema of what the registry has; raises ``ValueError`` with the reason if it is of no use.
    """

    def __init__(
        self, find: Find, parse: Callable[[RegisteredSchema], _Schema], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._parse = parse
        self._clock = clock
        self._patiently: Callable[[Callable[[], Any]], Any] = lambda work: work()
        self._known: dict[SchemaId, _Schema | ValueError] = {}  # or why there is none
        self._unknown: dict[SchemaId, float] = {}  # until when the registry is not asked again

    def ask_with(self, patiently: Callable[[Callable[[], Any]], Any]) -> None:
        """Asks the registry by ``patiently`` from now on, which repeats a call until the registry answers."""
        self._patiently = patiently

    def read(self, raw: bytes, headers: Headers | None, is_key: bool = False) -> Any:
        """Decodes a key or value of a message; ``ValueError`` if it has no schema, or does not fit it."""
        found = payload(raw, headers, is_key=is_key)
        return self.get(found.schema).read(found.data)

    def get(self, schema: SchemaId) -> _Schema:
        """Returns the schema with this id.

        Raises:
            ValueError: there is none, or it is of no use.
        """
        if schema not in self._known and self._unknown.get(schema, -math.inf) <= self._clock():
            self._patiently(partial(self._ask, schema))
        if schema in self._unknown:
            raise ValueError(f"the schema registry has no schema with the id {schema}: see SCHEMA_REGISTRY_URL")
        found = self._known[schema]
        if isinstance(found, ValueError):
            raise ValueError(f"{found} (id {schema})")  # noqa: TRY004 - it is the datum that has no usable schema
        return found

    def _ask(self, schema: SchemaId) -> None:
        registered = self._find(schema)
        if registered is None:
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[schema] = self._clock() + _UNKNOWN_SECONDS
            return
        self._unknown.pop(schema, None)
        try:
            self._known[schema] = self._parse(registered)
        except ValueError as error:
            self._known[schema] = error
