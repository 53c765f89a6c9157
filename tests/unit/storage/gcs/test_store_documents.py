"""Conditional writes to Google Cloud Storage where answers are lost or refused, and reads that break off."""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.errors import FatalError, RetryableError
from app.storage.base import ChangedError, Document
from tests.fakes.canned_server import Answer, Request
from tests.unit.storage.gcs.google_answers import (
    BUCKET_GONE,
    bucket_at,
    content,
    listing,
    methods,
    refusal,
    text,
    written,
)

KEY = "t/_journal/schema.json"
OURS = b'{"by": "us"}'
FILE = "t/f.parquet"
ROWS = b"our rows"
MD5 = b64encode(hashlib.md5(ROWS, usedforsecurity=False).digest()).decode()

WRITTEN = written(2)
HOLDS_OURS = content(OURS, 2)
HOLDS_THEIRS = content(b"theirs", 3)
HOLDS_OLD = content(b"old", 1)

CHANGED = refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
MISSING = text(404, f"No such object: lake/{KEY}")
CONFLICT = refusal(409, "conflict", "The object was edited during the operation. Please try again.")
BUSY = refusal(429, "rateLimitExceeded", "The object lake/x exceeded the rate limit for object mutation operations.")
BROKEN = refusal(503, "backendError", "Backend Error")
WEB_PAGE = Answer(200, b"<html>busy</html>", {"Content-Type": "text/html"})


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "ours.parquet"
    path.write_bytes(ROWS)
    return path


def asked(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


@pytest.mark.parametrize(("replaces", "generation"), [(None, "0"), ("1", "1")])
def test_a_write_names_the_generation_that_it_replaces(replaces: str | None, generation: str) -> None:
    with bucket_at(WRITTEN) as (store, server):
        assert store.write(KEY, OURS, replaces=replaces) == "2"

    (request,) = server.requests
    assert asked(request)["ifGenerationMatch"] == generation
    assert OURS in request.body
    assert KEY.encode() in request.body
    assert b'"crc32c"' in request.body
    assert b"content-type: application/json\r\n" in request.body


@pytest.mark.parametrize("replaces", [None, "1"])
@pytest.mark.parametrize("answer", [CHANGED, BROKEN, CONFLICT, BUSY, WEB_PAGE, Answer(200)], ids=range(6))
def test_an_object_that_holds_our_body_is_written_whatever_the_answer_was(replaces: str | None, answer: Answer) -> None:
    with bucket_at(answer, HOLDS_OURS) as (store, server):
        assert store.write(KEY, OURS, replaces=replaces) == "2"
    assert methods(server) == ["POST", "GET"]


@pytest.mark.parametrize("found", [HOLDS_THEIRS, HOLDS_OLD, MISSING])
def test_a_version_that_is_gone_is_told(found: Answer) -> None:
    with bucket_at(CHANGED, found) as (store, _), pytest.raises(ChangedError, match=f"gs://lake/{KEY}"):
        store.write(KEY, OURS, replaces="1")


@pytest.mark.parametrize("replaces", ["0", "", '"1"', "-1", "1.5"])
def test_what_no_generation_is_called_is_no_version_of_an_object(replaces: str) -> None:
    with bucket_at(HOLDS_THEIRS) as (store, server), pytest.raises(ChangedError):
        store.write(KEY, OURS, replaces=replaces)
    assert methods(server) == ["GET"]


@pytest.mark.parametrize("found", [HOLDS_THEIRS, HOLDS_OLD, MISSING])
@pytest.mark.parametrize("answer", [CONFLICT, BROKEN, BUSY], ids=range(3))
def test_a_write_that_did_not_arrive_can_be_tried_again(answer: Answer, found: Answer) -> None:
    with bucket_at(answer, found) as (store, _), pytest.raises(RetryableError, match=f"writing gs://lake/{KEY}"):
        store.write(KEY, OURS, replaces="1")


def test_nobody_knows_what_was_written_while_the_object_cannot_be_read() -> None:
    with bucket_at(CHANGED, BROKEN) as (store, _), pytest.raises(RetryableError, match=f"reading gs://lake/{KEY}"):
        store.write(KEY, OURS, replaces="1")


def test_a_store_that_forgets_conditions_is_read_and_checked_first_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with bucket_at(*[WRITTEN] * 3, Answer(204), HOLDS_OLD, WRITTEN, HOLDS_THEIRS) as (store, server):
        store.probe_conditions("t/_journal/")
        assert store.write(KEY, OURS, replaces="1") == "2"
        with pytest.raises(ChangedError):
            store.write(KEY, OURS, replaces="2")

    assert methods(server) == ["POST", "POST", "POST", "DELETE", "GET", "POST", "GET", "GET"]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("app")]
    assert "gs://lake knows no conditional writes" in warning


def test_a_replaced_file_names_its_generation_and_what_it_is(rows: Path) -> None:
    with bucket_at(written(2, size=8)) as (store, server):
        replaced = store.replace(rows, FILE, replaces="1")

    post = server.requests[0]
    assert asked(post)["ifGenerationMatch"] == "1"
    assert b"content-type: application/vnd.apache.parquet\r\n" in post.body
    assert (replaced.key, replaced.size, replaced.last_modified.year) == (FILE, 8, 2026)


@pytest.mark.parametrize("answer", [CHANGED, BROKEN, WEB_PAGE], ids=range(3))
def test_a_file_that_is_found_there_is_written_whatever_the_answer_was(rows: Path, answer: Answer) -> None:
    with bucket_at(answer, written(2, size=8, md5=MD5)) as (store, server):
        assert store.replace(rows, FILE, replaces="1").size == len(ROWS)
    assert methods(server) == ["POST", "GET"]


@pytest.mark.parametrize("found", [written(3, md5="bm90IG91cnM="), written(3), MISSING], ids=range(3))
def test_another_version_of_a_file_is_told(rows: Path, found: Answer) -> None:
    with bucket_at(CHANGED, found) as (store, _), pytest.raises(ChangedError, match=f"gs://lake/{FILE}"):
        store.replace(rows, FILE, replaces="1")


def test_an_object_that_is_not_there_is_no_bucket_that_is_gone() -> None:
    with bucket_at(MISSING) as (store, server):
        assert store.read(KEY) is None
        store.delete(KEY)
    assert methods(server) == ["GET", "DELETE"]


def test_where_the_answer_does_not_tell_the_bucket_is_asked_for() -> None:
    with bucket_at(text(404, "Not Found"), listing(), refusal(404, "notFound", "Not Found"), listing()) as (store, _):
        assert store.read(KEY) is None
        store.delete(KEY)


@pytest.mark.parametrize("verb", ["reading", "writing", "deleting", "uploading", "listing"])
def test_a_bucket_that_is_gone_is_fatal(verb: str, rows: Path) -> None:
    with bucket_at(refusal(404, "notFound", BUCKET_GONE)) as (store, _):
        calls: dict[str, Callable[[], object]] = {
            "reading": lambda: store.read(KEY),
            "writing": lambda: store.write(KEY, OURS, replaces=None),
            "deleting": lambda: store.delete(KEY),
            "uploading": lambda: store.upload(rows, KEY),
            "listing": lambda: list(store.list(KEY)),
        }
        with pytest.raises(FatalError, match=f"{verb} gs://lake/{KEY}: there is no such bucket.*restart"):
            calls[verb]()


def test_a_page_of_a_proxy_is_not_an_object(tmp_path: Path) -> None:
    with bucket_at(WEB_PAGE) as (store, _):
        for attempt in (
            lambda: store.read(KEY),
            lambda: store.read_range(KEY, 0, 4),
            lambda: store.download(KEY, tmp_path / "copy"),
        ):
            with pytest.raises(RetryableError, match=r"no generation.*proxy"):
                attempt()
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("page", [WEB_PAGE, Answer(200), Answer(200, b"{}"), Answer(200, b"[]")], ids=range(4))
def test_a_page_of_a_proxy_is_not_an_empty_folder(page: Answer) -> None:
    with bucket_at(page) as (store, _), pytest.raises(RetryableError, match=r"listing gs://lake/t/: .*proxy"):
        list(store.list("t/"))


def test_a_listing_goes_on_where_its_last_page_ended() -> None:
    with bucket_at(listing("t/a", token="more"), listing("t/b")) as (store, server):
        assert [found.key for found in store.list("t/")] == ["t/a", "t/b"]
    assert asked(server.requests[1])["pageToken"] == "more"


def test_bytes_that_do_not_fit_their_checksum_are_asked_for_again() -> None:
    damaged = content(b"old", 1)
    damaged = Answer(200, b"old", {**damaged.headers, "X-Goog-Hash": "crc32c=AAAAAA==,md5=AAAAAAAAAAAAAAAAAAAAAA=="})

    with bucket_at(damaged) as (store, _), pytest.raises(RetryableError, match=f"reading gs://lake/{KEY}.*damaged"):
        store.read(KEY)


def test_a_range_is_asked_for_by_its_last_byte() -> None:
    part = Answer(206, b"abc", {"X-Goog-Generation": "2", "Content-Range": "bytes 5-7/100"})
    with bucket_at(part) as (store, server):
        assert store.read_range(KEY, 5, 3) == b"abc"
    assert server.requests[0].headers["range"] == "bytes=5-7"


def test_what_is_read_comes_with_its_generation() -> None:
    with bucket_at(HOLDS_OLD) as (store, _):
        assert store.read(KEY) == Document(b"old", "1")
