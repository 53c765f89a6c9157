"""The schemas of a registry that records name by their ids: each is asked for once, and an unknown one now and then."""

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from app.convert.wire_format import payload
from app.model import Headers, RegisteredSchema, SchemaId
from app.reasons import Reason, reason_of

_REFUSED_SECONDS = 30.0  # a registry may have replicas, which get a new schema later
_MOST_REFUSED = 10_000  # that are remembered
_AT_ONCE, _AT_ONCE_SECONDS = 20, 10.0  # so many new ids are asked for in vain; junk may hold another one each time

_NOT_ASKED = Reason(f"its schema id is new, and {_AT_ONCE} others were asked for in vain within {_AT_ONCE_SECONDS:g} s")


class _Reads(Protocol):
    def read(self, data: bytes, /) -> Any: ...


_Schema = TypeVar("_Schema", bound=_Reads)

Find = Callable[[SchemaId], RegisteredSchema]
"""Asks the registry: raises ``ValueError`` with the reason for an id without a usable schema, and ``RetryableError``
without an answer."""


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
        self._known: dict[SchemaId, _Schema] = {}
        self._refused: dict[SchemaId, tuple[float, Reason]] = {}  # until when the registry is not asked again, and why
        self._asked_in_vain: deque[float] = deque(maxlen=_AT_ONCE)

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
        if schema not in self._known:
            until, _ = self._refused.get(schema, (-math.inf, _NOT_ASKED))
            if until <= self._clock() and not self._is_flooded():
                self._refused.pop(schema, None)
                self._patiently(partial(self._ask, schema))
        if schema not in self._known:
            raise ValueError(self._refused[schema][1] if schema in self._refused else _NOT_ASKED)
        return self._known[schema]

    def _ask(self, schema: SchemaId) -> None:
        try:
            found = self._find(schema)
        except ValueError as error:
            self._refuse(schema, reason_of(error).also("", f" (id {schema})"))  # which may be any bytes of the record
            return
        try:
            self._known[schema] = self._parse(found)
        except ValueError as error:
            self._refuse(schema, reason_of(error).also(f" (id {schema})"))

    def _refuse(self, schema: SchemaId, reason: Reason) -> None:
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        now = self._clock()
        self._refused[schema] = now + _REFUSED_SECONDS, reason
        self._asked_in_vain.append(now)

    def _is_flooded(self) -> bool:
        times = self._asked_in_vain
        return len(times) == _AT_ONCE and times[0] > self._clock() - _AT_ONCE_SECONDS
