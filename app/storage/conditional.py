"""Conditional writes: several writers replace each other's versions of an object, one at a time."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, Generic, Literal, TypeVar

from app.errors import RetryableError
from app.storage.base import ChangedError

logger = logging.getLogger(__name__)

_Body = TypeVar("_Body")


class Whatever(Enum):
    """Stands for any version, or none."""

    IS_THERE = "is there"


WHATEVER_IS_THERE: Final = Whatever.IS_THERE

# The version that a write is to replace: one that was seen, none (the object must not be there), or whatever is there.
Replaces = str | None | Literal[Whatever.IS_THERE]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a stored object; ``etag`` is what ``Document.etag`` is."""

    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """The version that is stored, and whether it holds the body that the writer wants to write."""

    version: Version
    is_ours: bool


class NoConditionsError(Exception):
    """The store answers that it does not know conditional requests (Backblaze B2: 501)."""


class ConditionalWriter(Generic[_Body]):
    """Writes an object only where it still is the version that the writer saw.

    An answer that was lost must look neither like a failure nor like somebody else's version, and the store's library
    may have sent the request twice by itself. So after every answer but "done", the object is read: when it holds our
    body, it is written.

    Args:
        uri: the bucket's address, for messages.
        put: stores a body under a key in place of the version to replace, and returns the new version. Raises
            ``ChangedError`` where something else is there, and ``NoConditionsError``.
        look: reads an object and compares it with a body, ``None`` where there is none.
    """

    def __init__(
        self,
        uri: str,
        put: Callable[[str, _Body, Replaces], Version],
        look: Callable[[str, _Body], Seen | None],
    ) -> None:
        self._uri = uri
        self._put = put
        self._look = look
        self._conditions: bool | None = None  # None: not tried, and used until the store says that it knows none

    @property
    def has_conditions(self) -> bool:
        """Whether the store itself refuses what does not replace the version that is named."""
        return self._conditions is not False

    def create(self, key: str, body: _Body) -> Version:
        """As ``ObjectStore.upload``. After an error that may pass the caller tries again, and then this looks."""
        if not self.has_conditions:
            return self._put(key, body, WHATEVER_IS_THERE)
        return self._put_or_find(key, body, None, ChangedError)

    def write(self, key: str, body: _Body, replaces: str | None) -> Version:
        """As ``ObjectStore.write``."""
        return self._put_or_find(key, body, replaces, ChangedError, RetryableError)

    def probe(self, key: str, first: _Body, second: _Body) -> bool:
        """Replace a version that is gone, and write where nothing may be: a store that does is one without conditions.

        Some stores know one of the two conditions and ignore the other without a word.

        Returns:
            Whether conditions hold here; if not, ``write`` reads and checks from now on.
        """
        try:
            gone = self._put(key, first, None).etag
            self._put(key, second, gone)
            hold = self._is_refused(key, first, gone) and self._is_refused(key, first, None)
        except ChangedError:  # of what the store's library has written itself, before it sent the request again
            hold = True
        except NoConditionsError:
            hold = False
        self.rely_on_conditions(hold)
        if not hold:
            self._warn()
        return hold

    def rely_on_conditions(self, hold: bool) -> None:
        """Take the result of a probe; without conditions, this reads and checks before each write from now on."""
        self._conditions = hold

    def _is_refused(self, key: str, body: _Body, replaces: str | None) -> bool:
        try:
            self._put(key, body, replaces)
        except ChangedError:
            return True
        return False

    def _put_or_find(self, key: str, body: _Body, replaces: str | None, *in_doubt: type[Exception]) -> Version:
        """Put; after an error that leaves the outcome in doubt, count our own body as written."""
        try:
            return self._put_in_place_of(key, body, replaces)
        except in_doubt:
            found = self._look(key, body)
            if found is None or not found.is_ours:
                raise
            return found.version

    def _put_in_place_of(self, key: str, body: _Body, replaces: str | None) -> Version:
        if self.has_conditions:
            try:
                return self._put(key, body, replaces)
            except NoConditionsError as error:
                if self._conditions:  # somebody on the way says so, and the store has shown otherwise
                    cause = "the answer is that conditional writes are not implemented, and they were at the start"
                    raise RetryableError(f"writing {self._uri}/{key}", cause) from error
                self._conditions = False
                self._warn()
        found = self._look(key, body)
        if (found.version.etag if found else None) != replaces:
            raise changed(self._uri, key)
        return self._put(key, body, WHATEVER_IS_THERE)

    def _warn(self) -> None:
        logger.warning(
            "%s knows no conditional writes. Objects are read and checked before they are written instead: "
            "two writers in the same instant could overwrite each other. Let one replica write to a table",
            self._uri,
        )


def changed(uri: str, key: str) -> ChangedError:
    """The refusal of a conditional write."""
    return ChangedError(f"{uri}/{key} is not the version that was to be replaced")
