"""Conditional writes: several writers replace each other's versions of an object, one at a time."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Literal, TypeVar

from app.errors import RetryableError
from app.storage.base import ChangedError

logger = logging.getLogger(__name__)

_Body = TypeVar("_Body")
_Stored = TypeVar("_Stored")


class Whatever(Enum):
    """Stands for any version, or none."""

    IS_THERE = "is there"


WHATEVER_IS_THERE: Final = Whatever.IS_THERE

# The version that a write is to replace: one that was seen, none (the object must not be there), or whatever is there.
Replaces = str | None | Literal[Whatever.IS_THERE]


@dataclass(frozen=True, slots=True)
class Seen(Generic[_Stored]):
    """What an object was found to be: its version, and whether it holds the body that one wants to write.

    ``etag`` is what ``Document.etag`` is: whatever the store names a version by. ``stored`` is what a write of this
    object would have returned.
    """

    etag: str
    is_ours: bool
    stored: _Stored


class NoConditionsError(Exception):
    """The store answers that it does not know conditional requests (Backblaze B2: 501)."""


class ConditionalWriter(Generic[_Body, _Stored]):
    """Writes an object only where it still is the version that the writer saw.

    An answer that was lost must look neither like a failure nor like somebody else's version, and the store's library
    may have sent the request twice by itself. So after every answer but "done", the object is read: when it holds our
    body, it is written.

    Args:
        uri: the bucket's address, for messages.
        put: stores a body under a key in place of what it is to replace, and returns what is stored now. Raises
            ``ChangedError`` where something else is there, and ``NoConditionsError``.
        look: reads an object and compares it with a body, ``None`` where there is none.
    """

    def __init__(
        self,
        uri: str,
        put: Callable[[str, _Body, Replaces], _Stored],
        look: Callable[[str, _Body], Seen[_Stored] | None],
    ) -> None:
        self._uri = uri
        self._put = put
        self._look = look
        self._conditions = True
        self._are_proven = False

    @property
    def has_conditions(self) -> bool:
        """Whether the store itself refuses what does not replace the version that is named."""
        return self._conditions

    def create(self, key: str, body: _Body) -> _Stored:
        """As ``ObjectStore.upload``. After an error that may pass the caller tries again, and then this looks."""
        if not self._conditions:
            return self._put(key, body, WHATEVER_IS_THERE)
        try:
            return self._put_in_place_of(key, body, None)
        except ChangedError:
            found = self._look(key, body)
            if found is None or not found.is_ours:
                raise
            return found.stored

    def write(self, key: str, body: _Body, replaces: str | None) -> _Stored:
        """As ``ObjectStore.write``."""
        try:
            return self._put_in_place_of(key, body, replaces)
        except (ChangedError, RetryableError):
            found = self._look(key, body)
            if found is None or not found.is_ours:
                raise
            return found.stored

    def probe(self: "ConditionalWriter[_Body, str]", key: str, first: _Body, second: _Body) -> bool:
        """Replace a version that is gone, and write where nothing may be: a store that does is one without conditions.

        Some stores know one of the two conditions and ignore the other without a word.

        Returns:
            Whether conditions hold here; if not, ``write`` reads and checks from now on.
        """
        try:
            gone = self._put(key, first, None)
            self._put(key, second, gone)
            self._are_proven = self._is_refused(key, first, gone) and self._is_refused(key, first, None)
        except ChangedError:  # of what the store's library has written itself, before it sent the request again
            self._are_proven = True
        except NoConditionsError:
            self._are_proven = False
        if not self._are_proven:
            self._warn_and_do_without_conditions()
        return self._are_proven

    def _is_refused(self, key: str, body: _Body, replaces: str | None) -> bool:
        try:
            self._put(key, body, replaces)
        except ChangedError:
            return True
        return False

    def rely_on_conditions(self, hold: bool) -> None:
        """What a probe has found; without conditions, this reads and checks before each write from now on."""
        self._conditions = self._are_proven = hold

    def _put_in_place_of(self, key: str, body: _Body, replaces: str | None) -> _Stored:
        if self._conditions:
            try:
                return self._put(key, body, replaces)
            except NoConditionsError as error:
                if self._are_proven:  # somebody on the way says so, and the store has shown otherwise
                    cause = "the answer is that conditional writes are not implemented, and they were at the start"
                    raise RetryableError(f"writing {self._uri}/{key}", cause) from error
                self._warn_and_do_without_conditions()
        found = self._look(key, body)
        if (found.etag if found else None) != replaces:
            raise ChangedError(f"{self._uri}/{key} is not the version that was to be replaced")
        return self._put(key, body, WHATEVER_IS_THERE)

    def _warn_and_do_without_conditions(self) -> None:
        self._conditions = False
        logger.warning(
            "%s knows no conditional writes. Objects are read and checked before they are written instead: "
            "two writers in the same instant could overwrite each other. Let one replica write to a table",
            self._uri,
        )
