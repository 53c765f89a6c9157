"""How objects travel to and from Google Cloud Storage, over real HTTP."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.errors import ConfigError, RetryableError
from app.storage.base import ChangedError
from tests.fakes.canned_server import Answer, Request
from tests.fakes.google_answers import bucket_at, content, listing, refusal, said, text, written

KEY = "t/_journal/schema.json"
OURS = b"PAR1"


def asked(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def test_each_way_to_store_names_the_generation_that_it_replaces(file: Path) -> None:
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
    assert server.methods == ["GET"]


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


PIECE = 8 << 20


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "forgotten"])
def test_a_large_file_is_sent_in_pieces_and_seen_when_all_are_there(file: Path, is_kept: bool) -> None:
    session, body = dict[str, str](), bytes(range(256)) * (PIECE // 256) + b"the rest"
    file.write_bytes(body)
    last = written(2, body) if is_kept else text(404, "Not Found")
    first = Answer(308, headers={"Range": f"bytes=0-{PIECE - 1}"})
    with bucket_at(Answer(200, b"{}", session), first, last) as (store, server):
        session["Location"] = f"{server.url}/session"
        if is_kept:
            assert store.upload(file, "t/f.parquet").size == len(body)
        else:
            with pytest.raises(RetryableError, match="the store has forgotten the upload's beginning"):
                store.upload(file, "t/f.parquet")

    begin, *pieces = server.requests
    assert (asked(begin)["uploadType"], asked(begin)["ifGenerationMatch"]) == ("resumable", "0")
    assert [put.path for put in pieces] == ["/session"] * 2
    assert b"".join(put.body for put in pieces) == body
