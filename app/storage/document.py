"""Compare-and-set for an object with several writers. Each writer replaces only the version that it has read."""

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
    """A document is damaged or too large, or a newer release wrote it."""


class NewerVersionError(UnreadableError):
    """A newer release wrote the document."""

    exit_code = ConfigError.exit_code


class SmallBody(bytearray):
    """Accepts the bytes of a small object. Raises ``UnreadableError`` if the object has too many bytes."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def write(self, data: bytes, /) -> int:
        self += data
        if len(self) > MOST_BYTES:
            cause, hint = f"it has more than {MOST_BYTES:,} bytes", "Find out who wrote the object, and restore it"
            raise UnreadableError(f"reading {self._where}", cause, hint)
        return len(data)


@dataclass(frozen=True, slots=True)
class Form(Generic[_D]):
    """The stored form of one kind of documents.

    Args:
        what: Name of this kind of documents, for messages.
        parse: Function that parses a body. Raises ``ValueError`` if the body is damaged or of a newer release.
        body: Function that returns the body. All versions must differ, because an ETag may depend only on the content.
        remedy: The hint for a document that cannot be parsed.
        version: The newest version of the format that this release reads.
    """

    what: str
    parse: Callable[[bytes], _D]
    body: Callable[[_D], bytes]
    remedy: str
    version: int = 1


class Document(Generic[_D]):
    """One document in the store. ``current`` is the last version that was read or written. For one thread at a time."""

    def __init__(self, store: ObjectStore, key: str, form: Form[_D]) -> None:
        self._store = store
        self._key = key
        self._form = form
        self.where = f"{store.uri}/{key}"  # for messages
        self._etag: str | None = None
        self.current: _D | None = None

    def read(self) -> _D | None:
        """Returns the stored version; ``None`` if it does not exist. Raises ``UnreadableError`` if parsing fails."""
        content = self._store.read(self._key)
        try:
            self.current = self._form.parse(check_json(content.body)) if content else None
        except (ValueError, RecursionError) as error:
            doing = f"reading {self._form.what} {self.where}"
            if content and (version := _version_of(content.body)) > self._form.version:
                cause = f"it has version {version}, and this release of the connector reads up to {self._form.version}"
                raise NewerVersionError(doing, cause, "Run the release that wrote it, or a newer one") from None
            raise UnreadableError(doing, str(error), self._form.remedy) from None
        self._etag = content.etag if content else None
        return self.current

    def write(self, document: _D) -> None:
        """Replaces the stored version if it is the last version that was read or written.

        Raises:
            ChangedError: The stored version differs or is missing, perhaps because an earlier write received no answer.
        """
        self._etag = self._store.write(self._key, self._form.body(document), replaces=self._etag)
        self.current = document

    def write_first(self, document: _D) -> _D:
        """Stores the first version if no other writer has stored one. Returns the stored version."""
        try:
            self.write(document)
        except ChangedError:
            if (theirs := self.read()) is None:
                raise RetryableError(f"writing {self.where}", "it was written and deleted meanwhile") from None
            return theirs
        return document

    def is_unchanged(self) -> bool:
        """Whether the stored version is the last version that was read or written."""
        content = self._store.read(self._key)
        return (content.etag if content else None) == self._etag


def _version_of(body: bytes) -> int:
    """Returns the version number in the document; 0 if the document contains no version number."""
    with suppress(ValueError, OverflowError, RecursionError, TypeError, KeyError):
        return int(json.loads(body)["version"])
    return 0
