"""Trying out a store: every one passes and is left as it was; a strange one is told of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.errors import FatalError
from app.storage.base import Content
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


READ, WRITE = LocalStore.read, LocalStore.write


def stale(store: LocalStore, key: str) -> Content | None:
    found = READ(store, key)
    return Content(b"older", found.etag) if found else None


def write_once(store: LocalStore, key: str, body: bytes, *, replaces: str | None) -> str:
    if replaces is not None:
        raise FatalError(f"writing {key}", "Access Denied", "Allow s3:PutObject")
    return WRITE(store, key, body, replaces=replaces)


def keep(_: LocalStore, key: str) -> None:
    raise FatalError(f"deleting {key}", "Access Denied", "Allow s3:DeleteObject")


@pytest.mark.parametrize(
    ("strange", "cause", "left"),
    [
        ({"read": lambda *_: None}, "a read returned another version", 0),
        ({"read": stale}, "a read returned another version", 0),
        (
            {"write": lambda *given, replaces: WRITE(*given, replaces=replaces) + "x"},  # an ETag that it does not know
            "the object changed, though no other writer uses it",
            0,
        ),
        ({"list": lambda *_: iter(())}, "the object was written, and is not listed", 0),
        ({"delete": lambda *_: None}, "the object was deleted, and is still listed", 1),
        ({"write": write_once, "delete": keep}, "Allow s3:PutObject", 1),
    ],
    ids=["forgetful", "stale", "anxious", "unlisted", "undead", "refusing"],
)
def test_a_strange_store_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strange: dict[str, Callable[..., Any]], cause: str, left: int
) -> None:
    for name, answer in strange.items():
        monkeypatch.setattr(LocalStore, name, answer)
    with pytest.raises(FatalError, match=cause):
        try_out(LocalStore(tmp_path), PREFIX)

    assert len(list(tmp_path.rglob("*.json"))) == left
