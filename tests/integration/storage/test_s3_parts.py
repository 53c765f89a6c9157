"""Big files: sent in parts, there for readers as a whole or not at all, and nothing is left of those that fail."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from app.errors import FatalError, RetryableError
from app.storage.base import ChangedError
from app.storage.s3.store import S3Store
from dev.minio import LocalMinio
from tests.faults.proxy import Answer, FaultProxy, Hold, Lost, Rule, Say, from_on, nth, on
from tests.integration.storage.conftest import LARGE, SMALL_PARTS
from tests.support.waiting import join, wait_until

Make = Callable[..., S3Store]
KEY = "t/large.parquet"
DENIED = Answer(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")
BROKEN = Answer(500, b"<Error><Code>InternalError</Code><Message>We are broken.</Message></Error>")
PART = on("PUT", query="partNumber=")
COMPLETE = on("POST", query="uploadId=")


@pytest.fixture
def s3_store(s3_store: Make) -> Make:
    """Stores that send files in parts from the size of one on."""
    return partial(s3_store, limits=SMALL_PARTS)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "large.parquet"
    path.write_bytes(LARGE)
    return path


@pytest.fixture
def proxy(s3_server: LocalMinio) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def store(s3_store: Make, bucket: str, proxy: FaultProxy) -> S3Store:
    return s3_store(bucket, endpoint_url=proxy.url)


@pytest.fixture
def unfinished(s3_server: LocalMinio, bucket: str) -> Callable[[], int]:
    """How many uploads in parts were begun and neither completed nor given up."""

    def count() -> int:
        # MinIO lists them by the whole key alone
        return len(s3_server.client().list_multipart_uploads(Bucket=bucket, Prefix=KEY).get("Uploads", []))

    return count


def test_a_big_file_arrives_whole(
    store: S3Store, s3_server: LocalMinio, bucket: str, file: Path, proxy: FaultProxy, tmp_path: Path
) -> None:
    stored = store.upload(file, KEY)

    assert proxy.count(PART) == 3
    assert stored.size == len(LARGE)
    assert [(found.key, found.size) for found in store.list("")] == [(KEY, len(LARGE))]
    assert s3_server.client().head_object(Bucket=bucket, Key=KEY)["ContentType"] == "application/vnd.apache.parquet"
    store.download(KEY, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == LARGE


def test_readers_see_nothing_before_the_last_part_is_there(
    store: S3Store, s3_server: LocalMinio, bucket: str, file: Path, proxy: FaultProxy
) -> None:
    proxy.add(Rule(COMPLETE, Hold()))
    uploading = Thread(target=store.upload, args=(file, KEY))
    uploading.start()
    wait_until(lambda: proxy.count(COMPLETE) or not uploading.is_alive(), "the request that completes the upload")
    assert uploading.is_alive()

    assert s3_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0

    proxy.release()
    join(uploading)
    assert s3_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 1


@pytest.mark.parametrize(
    ("refused", "answer", "error"),
    [
        (PART, BROKEN, RetryableError),
        (PART, DENIED, FatalError),
        (COMPLETE, BROKEN, RetryableError),
        # S3 can find out that it failed after it has begun to answer
        (COMPLETE, Answer(200, BROKEN.body), RetryableError),
        (PART, Answer(200, b"<html>busy"), RetryableError),
    ],
)
def test_nothing_is_left_of_an_upload_that_failed(
    store: S3Store,
    file: Path,
    proxy: FaultProxy,
    unfinished: Callable[[], int],
    refused: Callable[..., bool],
    answer: Answer,
    error: type[Exception],
) -> None:
    rule = proxy.add(Rule(refused, Say(answer), from_on(1 if refused is COMPLETE else 2)))

    with pytest.raises(error, match=f"uploading .*/{KEY}: "):
        store.upload(file, KEY)

    assert unfinished() == 0
    assert list(store.list("")) == []
    proxy.remove(rule)
    store.upload(file, KEY)
    assert [found.size for found in store.list("")] == [len(LARGE)]


def test_a_part_that_fails_once_is_sent_again_alone(store: S3Store, file: Path, proxy: FaultProxy) -> None:
    proxy.add(Rule(PART, Say(BROKEN), nth(2)))

    store.upload(file, KEY)

    assert [request.query["partNumber"] for request in proxy.seen if PART(request)] == ["1", "2", "2", "3"]


def test_an_answer_that_got_lost_does_no_harm(
    store: S3Store, file: Path, proxy: FaultProxy, unfinished: Callable[[], int]
) -> None:
    """boto3 completes the upload once more, and hears that the object is there."""
    proxy.add(Rule(COMPLETE, Lost(), nth(1)))

    store.upload(file, KEY)

    assert unfinished() == 0
    assert [found.size for found in store.list("")] == [len(LARGE)]


def test_the_name_of_a_placeholder_is_refused(store: S3Store, file: Path, unfinished: Callable[[], int]) -> None:
    """MinIO and AWS look when the parts are put together."""
    store.overwrite(KEY, b"no rows")

    with pytest.raises(ChangedError):
        store.upload(file, KEY)

    assert unfinished() == 0
    assert [found.size for found in store.list("")] == [len(b"no rows")]


def test_what_may_not_be_given_up_is_told_at_the_start_and_later(
    store: S3Store, bucket: str, file: Path, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows do not depend on it; the bill does."""
    proxy.add(Rule(on("DELETE", query="uploadId="), Say(DENIED)))
    with caplog.at_level(logging.WARNING):
        store.probe_conditions("t/_journal/")
        at_the_start = caplog.text
        caplog.clear()
        proxy.add(Rule(PART, Say(BROKEN), from_on(2)))
        with pytest.raises(RetryableError):
            store.upload(file, KEY)

    for told in (at_the_start, caplog.text):
        assert f"Allow s3:AbortMultipartUpload on arn:aws:s3:::{bucket}/" in told
        assert "Parts of failed uploads stay in the store" in told
