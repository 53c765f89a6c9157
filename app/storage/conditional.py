"""Conditional writes: a writer replaces only the version that it has read. Also finds out if stores support this."""

import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, Generic, Literal, TypeVar

from app.errors import ConnectorError, FatalError, RetryableError
from app.storage.base import ChangedError, ObjectStore

logger = logging.getLogger(__name__)

_FIRST, _SECOND = b'{"probe": 1}', b'{"probe": 2}'
_Body = TypeVar("_Body")


class Whatever(Enum):
    """Replace any version, or create the object."""

    IS_THERE = "is there"


WHATEVER_IS_THERE: Final = Whatever.IS_THERE

# The version to replace: the version with this ETag, ``None`` (the object must not exist), or any version.
Replaces = str | None | Literal[Whatever.IS_THERE]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a stored object. ``etag`` identifies the version."""

    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """The stored version, and whether this version has the writer's body."""

    version: Version
    is_ours: bool


class NoConditionsError(Exception):
    """The store does not implement conditional requests (Backblaze B2 answers 501)."""


@dataclass(slots=True)
class ConditionalWriter(Generic[_Body]):
    """Writes an object only if the stored version is the expected version.

    An answer may be lost after a success, and an SDK may send a request twice. Therefore the writer reads the object
    after every answer except success. If the object has our body, the write succeeded.

    ``_put`` writes a body in place of a version. It may raise ``ChangedError`` and ``NoConditionsError``. ``_find``
    reads an object and compares the object with a body. It returns ``None`` if the object does not exist.
    """

    _uri: str
    _put: Callable[[str, _Body, Replaces], Version]
    _find: Callable[[str, _Body], Seen | None]
    _conditions: bool | None = None  # None before a probe: conditions are used until the store refuses them

    @property
    def has_conditions(self) -> bool:
        """Whether the store refuses to replace an unexpected version."""
        return self._conditions is not False

    def create(self, key: str, body: _Body) -> Version:
        """Creates the object; see ``ObjectStore.upload``. A retry after an error reads the object."""
        if not self.has_conditions:
            return self._put(key, body, WHATEVER_IS_THERE)
        return self._put_or_find(self._put_in_place_of, key, body, None, ChangedError)

    def write(self, key: str, body: _Body, replaces: str | None) -> Version:
        return self._put_or_find(self._put_in_place_of, key, body, replaces, ChangedError, RetryableError)

    def probe(self, key: str, first: _Body, second: _Body) -> bool:
        """Tries to replace an old version, and to create an existing object. A store with conditions refuses this.

        Returns whether both are supported. Some stores silently ignore one condition. Other stores refuse to replace a
        version that they have just returned.
        """
        try:
            replaced = self._put_or_find(self._put, key, first, None, ChangedError).etag
            self._put_or_find(self._put, key, second, replaced, ChangedError)
            has_both = self._is_refused(key, first, replaced) and self._is_refused(key, first, None)
        except (ChangedError, NoConditionsError):
            has_both = False
        self.rely_on_conditions(has_both)
        if not has_both:
            self._warn()
        return has_both

    def rely_on_conditions(self, has_conditions: bool) -> None:
        """Notes the result of a probe. Without conditions, each write first reads and checks the object."""
        self._conditions = has_conditions

    def _is_refused(self, key: str, body: _Body, replaces: str | None) -> bool:
        try:
            self._put(key, body, replaces)
        except ChangedError:
            return True
        return False

    def _put_or_find(
        self,
        put: Callable[[str, _Body, str | None], Version],
        key: str,
        body: _Body,
        replaces: str | None,
        *in_doubt: type[Exception],
    ) -> Version:
        """Puts the body. After an error with an unknown outcome, finds out whether the object has our body."""
        try:
            return put(key, body, replaces)
        except in_doubt:
            seen = self._find(key, body)
            if seen is None or not seen.is_ours:
                raise
            return seen.version

    def _put_in_place_of(self, key: str, body: _Body, replaces: str | None) -> Version:
        if self.has_conditions:
            try:
                return self._put(key, body, replaces)
            except NoConditionsError as error:
                if self._conditions:  # the answer of a proxy, because the store supports conditions
                    cause = "the answer is that conditional writes are not implemented, and they were at the start"
                    raise RetryableError(f"writing {self._uri}/{key}", cause) from error
                self._conditions = False
                self._warn()
        seen = self._find(key, body)
        if (seen.version.etag if seen else None) != replaces:
            raise changed(self._uri, key)
        return self._put(key, body, WHATEVER_IS_THERE)

    def _warn(self) -> None:
        logger.warning(
            "%s does not support conditional writes. The connector reads and checks each object before it writes it: "
            "two writers at the same moment could overwrite each other. Let one replica write to a table",
            self._uri,
        )


def changed(uri: str, key: str) -> ChangedError:
    """Returns the error of a refused conditional write."""
    return ChangedError(f"the stored version of {uri}/{key} is not the expected one")


def try_out(store: ObjectStore, prefix: str) -> None:
    """Checks that the store writes, reads, lists and deletes objects, and probes its conditional writes.

    A store without conditions needs a workaround: see ``ObjectStore.probe_conditions``.
    """
    store.probe_conditions(prefix)
    with own_object(prefix, store.delete) as key:
        try:
            first = store.write(key, _FIRST, replaces=None)
            second = store.write(key, _SECOND, replaces=first)
        except ChangedError:
            raise _inconsistent_store(store, key, "the object changed, though no other writer uses it") from None
        content = store.read(key)
        if content is None or (content.body, content.etag) != (_SECOND, second):
            raise _inconsistent_store(store, key, "a read returned another version than the one just written")
        if not _is_listed(store, key):
            raise _inconsistent_store(store, key, "the object was written, and is not listed")
    if _is_listed(store, key):
        raise _inconsistent_store(store, key, "the object was deleted, and is still listed")


@contextlib.contextmanager
def own_object(prefix: str, delete: Callable[[str], None]) -> Iterator[str]:
    """Yields the unique key of a test object. Deletes the test object after a success and after a failure."""
    key = f"{prefix}probe-{secrets.token_hex(8)}.json"
    try:
        yield key
    except BaseException:
        with contextlib.suppress(ConnectorError):  # the user must see the first error
            delete(key)
        raise
    delete(key)


def _is_listed(store: ObjectStore, key: str) -> bool:
    return any(stored.key == key for stored in store.list(key))


def _inconsistent_store(store: ObjectStore, key: str, cause: str) -> FatalError:
    hint = "Exactly-once delivery needs a consistent store; check for a cache or proxy in front of it"
    return FatalError(f"testing {store.uri}/{key}", cause, hint)
