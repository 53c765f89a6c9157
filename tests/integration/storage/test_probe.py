"""Trying out a store: every one passes and is left as it was; a strange one is told of."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.errors import FatalError
from app.storage.base import Content, StoredObject
from app.storage.conditional import try_out
from app.storage.local.store import LocalStore
from tests.integration.storage.conftest import Place

PREFIX = "t/_journal/"


def test_a_good_store_is_left_as_it_was(place: Place) -> None:
    try_out(place.store, PREFIX)

    assert list(place.store.list("")) == []


def test_a_store_that_decides_between_writers_is_told_nothing_of(
    deciding_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    deciding_place.store.probe_conditions(PREFIX)

    assert deciding_place.store.refuses_overwrites
    assert not [record for record in caplog.records if record.name.startswith("app.storage")]


class _Strange(LocalStore):
    def keys(self) -> list[str]:
        return [found.key for found in LocalStore.list(self, "")]


class _Forgetful(_Strange):
    def read(self, key: str) -> Content | None:
        return None


class _Stale(_Strange):
    def read(self, key: str) -> Content | None:
        found = super().read(key)
        return Content(b"older", found.etag) if found else None


class _Anxious(_Strange):
    """Gives an ETag that it does not know again."""

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        return super().write(key, body, replaces=replaces) + "x"


class _Unlisted(_Strange):
    def list(self, prefix: str) -> Iterator[StoredObject]:
        return iter(())


class _Undead(_Strange):
    def delete(self, key: str) -> None:
        """Keep it."""


class _Refusing(_Strange):
    """Lets nothing be written a second time, nor deleted."""

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        if replaces is not None:
            raise FatalError(f"writing {key}", "Access Denied", "Allow s3:PutObject")
        return super().write(key, body, replaces=replaces)

    def delete(self, key: str) -> None:
        raise FatalError(f"deleting {key}", "Access Denied", "Allow s3:DeleteObject")


@pytest.mark.parametrize(
    ("strange", "cause", "left"),
    [
        (_Forgetful, "a read returned another version", 0),
        (_Stale, "a read returned another version", 0),
        (_Anxious, "the object changed, though no other writer uses it", 0),
        (_Unlisted, "the object was written, and is not listed", 0),
        (_Undead, "the object was deleted, and is still listed", 1),
        (_Refusing, "Allow s3:PutObject", 1),
    ],
)
def test_a_strange_store_is_told_of(tmp_path: Path, strange: Callable[[Path], _Strange], cause: str, left: int) -> None:
    store = strange(tmp_path)
    with pytest.raises(FatalError, match=cause):
        try_out(store, PREFIX)

    assert len(store.keys()) == left
