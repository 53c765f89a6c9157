"""Tries out a store with an object of our own, and deletes it afterwards."""

import contextlib
import secrets
from collections.abc import Callable, Iterator

from app.errors import ConnectorError, FatalError
from app.storage.base import ChangedError, ObjectStore

_FIRST, _SECOND = b'{"probe": 1}', b'{"probe": 2}'


def try_out(store: ObjectStore, prefix: str) -> None:
    """Prove that the store keeps, replaces, gives back, lists and deletes objects, and does so on condition.

    What the store can do without conditional requests, it does from now on: see ``ObjectStore.probe_conditions``.

    Args:
        store: connected.
        prefix: what the key of the object starts with.

    Raises:
        ConnectorError: of the step that fails.
    """
    store.probe_conditions(prefix)
    with own_object(prefix, store.delete) as key:
        _exercise(store, key)
    if _is_listed(store, key):
        raise _unlike_a_store(store, key, "it was deleted, and is listed still")


@contextlib.contextmanager
def own_object(prefix: str, delete: Callable[[str], None]) -> Iterator[str]:
    """Delete an object that is written only to try something, however the try ends.

    Args:
        prefix: what its key starts with.
        delete: as ``ObjectStore.delete``.

    Yields:
        Its key, which nobody else uses.
    """
    key = f"{prefix}probe-{secrets.token_hex(8)}.json"
    try:
        yield key
    except BaseException:
        with contextlib.suppress(ConnectorError):  # what went wrong first is what the user has to know
            delete(key)
        raise
    delete(key)


def _exercise(store: ObjectStore, key: str) -> None:
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


def _is_listed(store: ObjectStore, key: str) -> bool:
    return any(found.key == key for found in store.list(key))


def _unlike_a_store(store: ObjectStore, key: str, cause: str) -> FatalError:
    hint = "Exactly-once delivery needs a store that is consistent; check for a cache or proxy on the way to it"
    return FatalError(f"trying out {store.uri}/{key}", cause, hint)
