"""How objects travel to and from Google Cloud Storage, over real HTTP."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.errors import ConfigError, RetryableError
from app.storage.base import ChangedError
from tests.fakes.canned_server import Answer, Request
from tests.fakes.google_answers import bucket_at, content, listing, methods, refusal, said, text, written

KEY = "t/_journal/schema.json"
OURS = b'{"by": "us"}'


def asked(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def test_each_way_to_store_names_the_generation_that_it_replaces(tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    file.write_bytes(OURS)
    with bucket_at(written(2)) as (store, server):
        store.write(KEY, OURS, replaces=None)
        store.write(KEY, OURS, replaces="1")
        store.overwrite(KEY, OURS)
        store.upload(file, "t/f.parquet")

    assert [asked(post).get("ifGenerationMatch") for post in server.requests] == ["0", "1", None, "0"]
    for post in server.requests:
        assert OURS in post.body
        assert b'"crc32c"' in post.body
        kind = b"application/json" if KEY.encode() in post.body else b"application/vnd.apache.parquet"
        assert b"content-type: " + kind + b"\r\n" in post.body


@pytest.mark.parametrize("replaces", ["0", "", '"1"', "-1", "1.5"])
def test_what_no_generation_is_called_is_no_version_of_an_object(replaces: str) -> None:
    with bucket_at(content(b"theirs", 3)) as (store, server), pytest.raises(ChangedError):
        store.write(KEY, OURS, replaces=replaces)
    assert methods(server) == ["GET"]


def test_where_the_answer_does_not_tell_the_bucket_is_asked_for() -> None:
    with bucket_at(text(404, "Not Found"), listing(), refusal(404, "notFound", "Not Found"), listing()) as (store, _):
        assert store.read(KEY) is None
        store.delete(KEY)


def test_another_document_is_no_listing() -> None:
    with bucket_at(said({})) as (store, _):
        with pytest.raises(RetryableError, match=r"listing gs://lake/t/: .*proxy"):
            list(store.list("t/"))
        with pytest.raises(ConfigError, match=r"connecting to gs://lake: .*proxy"):
            store.connect("t/")


def test_bytes_that_do_not_fit_their_checksum_are_asked_for_again() -> None:
    damaged = content(b"old", 1)
    damaged = Answer(200, b"old", {**damaged.headers, "X-Goog-Hash": "crc32c=AAAAAA==,md5=AAAAAAAAAAAAAAAAAAAAAA=="})

    with bucket_at(damaged) as (store, _), pytest.raises(RetryableError, match=f"reading gs://lake/{KEY}.*damaged"):
        store.read(KEY)
