"""Compare-and-set: one object that several writers change, each only the version that it has read."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.errors import ConfigError, FatalError, RetryableError
from app.json_texts import MOST_BYTES, check_json
from app.storage.base import ChangedError, ObjectStore

_D = TypeVar("_D")


class UnreadableError(FatalError):
    """A document is damaged, too large, or of a newer release."""


class NewerVersionError(UnreadableError):
    """A newer release wrote the document."""

    exit_code = ConfigError.exit_code


class SmallBody(bytearray):
    """Takes the bytes of an object that is read as a whole; ``UnreadableError`` once they are too many."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def write(self, data: bytes, /) -> int:
        self += data
        if len(self) > MOST_BYTES:
            cause, hint = f"it has more than {MOST_BYTES:,} bytes", "Find out who has written it, and restore it"
            raise UnreadableError(f"reading {self._where}", cause, hint)
        return len(data)


@dataclass(frozen=True, slots=True)
class Form(Generic[_D]):
    """How documents of one kind are stored.

    Args:
        what: names the kind in messages.
        parse: raises ``ValueError`` if the body is damaged or of a newer release.
        body: returns what is stored. No two versions may be alike, because stores name a version by its content.
        remedy: what to do about one that cannot be parsed.
        version: the newest one that this release reads.
    """

    what: str
    parse: Callable[[bytes], _D]
    body: Callable[[_D], bytes]
    remedy: str
    version: int = 1


class Document(Generic[_D]):
    """One document in the store; ``current`` is the version last read or written here. For one thread at a time."""

    def __init__(self, store: ObjectStore, key: str, form: Form[_D]) -> None:
        self._store = store
        self._key = key
        self._form = form
        self.where = f"{store.uri}/{key}"  # for messages
        self._etag: str | None = None
        self.current: _D | None = None

    def read(self) -> _D | None:
        """Reads the stored version; ``None`` if there is none. ``UnreadableError`` if it cannot be parsed."""
        found = self._store.read(self._key)
        try:
            self.current = self._form.parse(check_json(found.body)) if found else None
        except (ValueError, RecursionError) as error:
            doing = f"reading {self._form.what} {self.where}"
            if found and (version := _version_of(found.body)) > self._form.version:
                cause = f"it has version {version}, and this release of the connector reads up to {self._form.version}"
                raise NewerVersionError(doing, cause, "Run the release that wrote it, or a newer one") from None
            raise UnreadableError(doing, str(error), self._form.remedy) from None
        self._etag = found.etag if found else None
        return self.current

    def write(self, document: _D) -> None:
        """Replaces the stored version, if it is the one last read or written here.

        Raises:
            ChangedError: it is another one, or gone; also where an earlier write of ours got no answer.
        """
        self._etag = self._store.write(self._key, self._form.body(document), replaces=self._etag)
        self.current = document

    def write_first(self, document: _D) -> _D:
        """Stores the first version, unless another writer is quicker; returns the one that is stored."""
        try:
            self.write(document)
        except ChangedError:
            if (theirs := self.read()) is None:
                raise RetryableError(f"writing {self.where}", "it was written and deleted meanwhile") from None
            return theirs
        return document

    def is_unchanged(self) -> bool:
        """Whether the stored version is the one last read or written here."""
        found = self._store.read(self._key)
        return (found.etag if found else None) == self._etag


def _version_of(body: bytes) -> int:
    """The version that the document names; 0 if it names none."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        return int(json.loads(body)["version"])
    return 0
