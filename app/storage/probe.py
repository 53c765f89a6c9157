"""Tests a store with an object of our own, and deletes it."""

import contextlib
import secrets
from collections.abc import Callable, Iterator

from app.errors import ConnectorError, FatalError
from app.storage.base import ChangedError, ObjectStore

_FIRST, _SECOND = b'{"probe": 1}', b'{"probe": 2}'


def try_out(store: ObjectStore, prefix: str) -> None:
    """Checks that the store writes, reads, lists and deletes objects, and honours conditions.

    A store without conditional requests is worked around from now on: see ``ObjectStore.probe_conditions``.
    """
    store.probe_conditions(prefix)
    with own_object(prefix, store.delete) as key:
        try:
            first = store.write(key, _FIRST, replaces=None)
            second = store.write(key, _SECOND, replaces=first)
        except ChangedError:
            raise _unlike_a_store(store, key, "its own versions are taken for somebody else's") from None
        found = store.read(key)
        if found is None or (found.body, found.etag) != (_SECOND, second):
            raise _unlike_a_store(store, key, "what was written does not come back")
        if not _is_listed(store, key):
            raise _unlike_a_store(store, key, "it was written, and is not listed")
    if _is_listed(store, key):
        raise _unlike_a_store(store, key, "it was deleted, and is listed still")


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
    return any(found.key == key for found in store.list(key))


def _unlike_a_store(store: ObjectStore, key: str, cause: str) -> FatalError:
    hint = "Exactly-once delivery needs a store that is consistent; check for a cache or proxy on the way to it"
    return FatalError(f"trying out {store.uri}/{key}", cause, hint)
