"""What every store does, whatever it is made of."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.errors import FatalError
from app.storage.base import ChangedError
from tests.integration.storage.conftest import WORKERS, Place

ODD_KEYS = [
    "t/city=New York/f.parquet",
    "t/city=a%2Fb/f.parquet",
    "t/city=100%25/f.parquet",
    "t/city=%F0%9F%98%80/f.parquet",
    "t/city=😀 Zürich/f.parquet",
    "t/city=東京/f.parquet",
    "t/city=a+b&c;d,e@f$g/f.parquet",
    "t/city=a=b/f.parquet",
    "t/city=12:30/f.parquet",
    "t/city=it's (fine)!~/f.parquet",
    't/city=<"q">#?x|y{z}[w]^`/f.parquet',
    "t/city=.../f.parquet",
    "t/city=__HIVE_DEFAULT_PARTITION__/f.parquet",
    "t/city= /f.parquet",
]


def keys(place: Place, prefix: str) -> list[str]:
    return [found.key for found in place.store.list(prefix)]


def test_what_is_uploaded_can_be_read_and_listed(place: Place, file: Path) -> None:
    place.store.connect("")
    assert keys(place, "") == []
    stored = place.store.upload(file, "data/t/year=2024/f.parquet")

    assert place.read("data/t/year=2024/f.parquet") == file.read_bytes()
    (listed,) = place.store.list("data/t/")
    assert (listed.key, listed.size) == (stored.key, stored.size) == ("data/t/year=2024/f.parquet", 4)
    assert stored.last_modified.utcoffset() == listed.last_modified.utcoffset() == timedelta(0)
    assert abs(stored.last_modified - listed.last_modified) <= timedelta(seconds=1)  # S3 headers have whole seconds
    assert abs(stored.last_modified - datetime.now(UTC)) < timedelta(hours=1)


@pytest.mark.parametrize("size", [0, 1, 9_000_000])
def test_any_size_arrives_whole(place: Place, tmp_path: Path, size: int) -> None:
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    path = tmp_path / "sized.parquet"
    path.write_bytes(content)

    stored = place.store.upload(path, "sized.parquet")

    assert stored.size == size
    assert [found.size for found in place.store.list("")] == [size]
    assert place.read("sized.parquet") == content


def test_uploading_again_is_done_already(place: Place, file: Path) -> None:
    first = place.store.upload(file, "t/f.parquet")
    again = place.store.upload(file, "t/f.parquet")

    assert (again.key, again.size) == (first.key, first.size)
    assert place.read("t/f.parquet") == file.read_bytes()


def test_an_upload_is_refused_where_another_object_is(place: Place, file: Path) -> None:
    """By those stores that know conditions; the others overwrite it, and say so beforehand."""
    place.store.probe_conditions("t/")
    place.store.overwrite("t/f.parquet", b"placeholder")

    if place.store.refuses_overwrites:
        with pytest.raises(ChangedError):
            place.store.upload(file, "t/f.parquet")
    else:
        place.store.upload(file, "t/f.parquet")

    assert place.read("t/f.parquet") == (b"placeholder" if place.store.refuses_overwrites else file.read_bytes())


def test_a_placeholder_replaces_what_is_there(place: Place, file: Path) -> None:
    place.store.upload(file, "t/f.parquet")
    place.store.overwrite("t/f.parquet", b"placeholder")

    assert place.read("t/f.parquet") == b"placeholder"
    assert [found.size for found in place.store.list("t/")] == [len(b"placeholder")]


def test_odd_keys_come_back_as_they_went(place: Place, file: Path) -> None:
    for key in ODD_KEYS:
        place.store.upload(file, key)

    assert {key: place.read(key) for key in ODD_KEYS} == dict.fromkeys(ODD_KEYS, file.read_bytes())
    assert keys(place, "t/") == sorted(ODD_KEYS, key=str.encode)
    assert {key: keys(place, key) for key in ODD_KEYS} == {key: [key] for key in ODD_KEYS}


def test_lists_in_the_order_of_whole_keys(place: Place, file: Path) -> None:
    expected = [
        "t-1",
        "t.parquet",
        "t/a",
        "t/a b/x",
        "t/a-b",
        "t/a.b",
        "t/a0/x",
        "t/b/a/c",
        "t/b/b",
        "t/é",
        "t/😀",
        "t0",
    ]
    for key in [*expected[6:], *expected[:6]]:
        place.store.upload(file, key)

    assert keys(place, "t") == expected == sorted(expected, key=str.encode)


def test_a_prefix_is_the_beginning_of_a_key_and_no_folder(place: Place, file: Path) -> None:
    for key in ("data/t/f", "data/t/day=1/f", "data/t2/f", "other/f"):
        place.store.upload(file, key)

    expected = {
        "": ["data/t/day=1/f", "data/t/f", "data/t2/f", "other/f"],
        "data/t": ["data/t/day=1/f", "data/t/f", "data/t2/f"],
        "data/t/": ["data/t/day=1/f", "data/t/f"],
        "data/t/day": ["data/t/day=1/f"],
        "data/t/day=1/f": ["data/t/day=1/f"],
        "data/t/f/": [],
        "nothing/here/": [],
        "nothing": [],
        "/data": [],
    }
    assert {prefix: keys(place, prefix) for prefix in expected} == expected


def test_more_objects_than_a_page_are_listed_from_many_threads_of_uploads(
    place: Place, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = [f"t/n={number % 7}/{number:05}.parquet" for number in range(1_100)]

    place.store.probe_conditions("t/")
    caplog.clear()
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(WORKERS) as pool:
        stored = list(pool.map(lambda key: place.store.upload(file, key), expected))

    assert [each.key for each in stored] == expected
    assert keys(place, "t/") == sorted(expected)
    # A pool smaller than its threads would say so for each connection it drops; threads of other tests log too.
    assert not [record for record in caplog.records if record.name.startswith("urllib3")]


def test_a_missing_file_is_fatal_and_leaves_nothing(place: Place, tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=r"uploading .*t/f.parquet.*gone\.parquet"):
        place.store.upload(tmp_path / "gone.parquet", "t/f.parquet")

    assert keys(place, "") == []
