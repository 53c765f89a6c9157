"""Conditional writes: a writer replaces only the version of an object that it has read. Probes a store for them."""

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
    """Any version, or none."""

    IS_THERE = "is there"


WHATEVER_IS_THERE: Final = Whatever.IS_THERE

# The version to replace: this ETag, ``None`` (the object must not exist), or any version.
Replaces = str | None | Literal[Whatever.IS_THERE]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a stored object; ``etag`` as in ``Content``."""

    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """The stored version, and whether it has the writer's body."""

    version: Version
    is_ours: bool


class NoConditionsError(Exception):
    """The store does not implement conditional requests (Backblaze B2 answers 501)."""


@dataclass(slots=True)
class ConditionalWriter(Generic[_Body]):
    """Writes an object only if its stored version is the expected one.

    An answer may get lost after a success, and an SDK may send a request twice. Therefore, after every answer except
    success, the writer reads the object: if it has our body, the write succeeded.

    ``_put`` replaces a version by a body; it may raise ``ChangedError`` and ``NoConditionsError``. ``_find`` reads an
    object and compares it with a body; ``None`` if it does not exist.
    """

    _uri: str
    _put: Callable[[str, _Body, Replaces], Version]
    _find: Callable[[str, _Body], Seen | None]
    _conditions: bool | None = None  # None: not probed; conditions are used until the store refuses them

    @property
    def has_conditions(self) -> bool:
        """Whether the store refuses to replace a version other than the expected one."""
        return self._conditions is not False

    def create(self, key: str, body: _Body) -> Version:
        """Creates the object; see ``ObjectStore.upload``. After a retryable error, the caller's retry reads it."""
        if not self.has_conditions:
            return self._put(key, body, WHATEVER_IS_THERE)
        return self._put_or_find(self._put_in_place_of, key, body, None, ChangedError)

    def write(self, key: str, body: _Body, replaces: str | None) -> Version:
        return self._put_or_find(self._put_in_place_of, key, body, replaces, ChangedError, RetryableError)

    def probe(self, key: str, first: _Body, second: _Body) -> bool:
        """Tries to replace an old version, and to create an existing object; a store with conditions refuses both.

        Some stores support one of the two conditions and silently ignore the other, or refuse to replace a version
        that they have just returned. Returns whether both are supported; if not, ``write`` reads and checks first.
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
        """Notes the result of a probe; without conditions, each write reads and checks first."""
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
        """Puts the body; after an error with an unknown outcome, counts our own body as written."""
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
                if self._conditions:  # a proxy's answer, because the store supports conditions
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

    For a store without conditions, a workaround is used: see ``ObjectStore.probe_conditions``.
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
    """Yields the unique key of a test object; deletes the object, whether the test succeeds or fails."""
    key = f"{prefix}probe-{secrets.token_hex(8)}.json"
    try:
        yield key
    except BaseException:
        with contextlib.suppress(ConnectorError):  # the user needs the first error
            delete(key)
        raise
    delete(key)


def _is_listed(store: ObjectStore, key: str) -> bool:
    return any(stored.key == key for stored in store.list(key))


def _inconsistent_store(store: ObjectStore, key: str, cause: str) -> FatalError:
    hint = "Exactly-once delivery needs a consistent store; check for a cache or proxy in front of it"
    return FatalError(f"testing {store.uri}/{key}", cause, hint)
