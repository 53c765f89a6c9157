"""How objects travel to and from Google Cloud Storage, over real HTTP, and what its errors become."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from google.api_core.exceptions import RetryError

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.parts.gcs.store import RETRY, GcsStore, translate
from app.storage.base import ChangedError
from app.storage.targets import GcsTarget
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


DENIED = (
    "sink@lake.iam.gserviceaccount.com does not have storage.objects.create access to the Google Cloud Storage object. "
    "Permission 'storage.objects.create' denied on resource (or it may not exist)."
)
TOO_OFTEN = (
    "The object lake/t/part-0.parquet exceeded the rate limit for object mutation operations (create, update, and "
    "delete). Please reduce your request rate."
)


def error_of_upload(kind: type[ConnectorError], file: Path, answer: Answer) -> ConnectorError:
    with bucket_at(answer) as (store, _), pytest.raises(kind) as caught:
        store.upload(file, "t/part-0.parquet")
    assert "uploading gs://lake/t/part-0.parquet" in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (refusal(503, "backendError", "Backend Error"), "Backend Error (backendError)"),
        (refusal(429, "rateLimitExceeded", TOO_OFTEN), "reduce your request rate"),
        (refusal(429, "rateLimitExceeded", "Too many requests of this project"), "Too many requests of this project"),
        (refusal(403, "rateLimitExceeded", "Rate limit exceeded"), "Rate limit exceeded"),
        (refusal(409, "conflict", "The object was edited during the operation"), "edited during"),
        (refusal(410, "uploadBrokenConnection", "The upload session is gone"), "session is gone"),
        (Answer(408), "HTTP 408"),
        (Answer(502, b"<html>bad gateway", {"Content-Type": "text/html"}), "any proxy on the way"),
        (Answer(200, b"<html></html>"), "proxy"),
        (said({}), "no generation"),
    ],
    ids=range(10),
)
def test_what_passes_is_retryable(file: Path, answer: Answer, shown: str) -> None:
    assert shown in str(error_of_upload(RetryableError, file, answer))


def test_an_error_answer_that_is_cut_off_is_retryable() -> None:
    cut = Answer(500, b'{"error": ', {"Content-Length": "100", "Connection": "close"})
    with bucket_at(cut) as (store, _), pytest.raises(RetryableError, match="reading gs://lake/t/x"):
        store.read("t/x")


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (refusal(403, "forbidden", DENIED), "Grant storage.objects.create on the bucket"),
        (refusal(403, "forbidden", "Permission denied on Cloud KMS key"), "Permission denied on Cloud KMS key"),
        (refusal(403, "retentionPolicyNotMet", "Object is subject to bucket's retention policy"), "retention policy"),
        (refusal(501, "notImplemented", "No such thing"), "No such thing"),
        (refusal(413, "uploadTooLarge", "Too large"), "Too large"),
        (text(403, DENIED), "Grant storage.objects.create on the bucket"),
    ],
    ids=range(6),
)
def test_what_does_not_pass_is_fatal(file: Path, answer: Answer, shown: str) -> None:
    assert shown in str(error_of_upload(FatalError, file, answer))


def test_a_refusal_that_passes_at_once_is_not_seen() -> None:
    """The journal of a partition is written twice a batch, and Google takes one write of an object a second."""
    soon = RETRY.with_delay(initial=0.001)
    with bucket_at(refusal(429, "rateLimitExceeded", TOO_OFTEN), written(1), retry=soon) as (store, server):
        assert store.write("t/_journal/0.json", b"{}", replaces=None) == "1"
    assert server.methods == ["POST", "POST"]


@pytest.mark.parametrize("cause", [ConnectionError("3 of 5 bytes came"), TimeoutError("3 of 5 bytes came")])
def test_what_the_library_has_tried_again_in_vain_is_retryable(cause: Exception) -> None:
    error = translate(RetryError("tried for 10 s", cause), "reading gs://lake/f")

    assert isinstance(error, RetryableError)
    assert error.cause == "3 of 5 bytes came"


def test_a_long_refusal_is_cut(file: Path) -> None:
    assert len(str(error_of_upload(FatalError, file, refusal(403, "forbidden", "no " * 5_000)))) < 800


def test_an_address_that_is_none_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "ftp://127.0.0.1")

    with pytest.raises(ConfigError, match="STORAGE_EMULATOR_HOST"):
        GcsStore(GcsTarget("lake"), max_workers=1).connect("")
