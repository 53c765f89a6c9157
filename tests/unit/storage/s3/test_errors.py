"""Every way S3 can say no, as the user gets to see it: over a real connection, with the answers put in its mouth."""

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.storage.s3.store import S3Store
from app.storage.s3.target import S3Target
from tests.fakes.canned_server import Answer, CannedServer

SECRET = "s3cr3t/K3y+that=stays"
TOKEN = "t0ken-that-stays"
LISTING = (
    b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Name>lake</Name><Prefix></Prefix><KeyCount>0</KeyCount><MaxKeys>1</MaxKeys><IsTruncated>false</IsTruncated>"
    b"</ListBucketResult>"
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 tries again as ever, only without sleeping in between."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "part-0.parquet"
    path.write_bytes(b"PAR1")
    return path


def store(endpoint_url: str, *, session_token: str | None = None, create_bucket: bool = True) -> S3Store:
    return S3Store(
        S3Target(
            "lake",
            region="us-east-1",
            endpoint_url=endpoint_url,
            access_key="AKIA1",
            secret_key=SECRET,
            session_token=session_token,
            may_create=create_bucket,
        ),
        max_workers=2,
    )


def refusal(
    status: int, code: str, message: str, *, extra: str = "", headers: Mapping[str, str] | None = None
) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{extra}</Error>"
    return Answer(status, body.encode(), headers or {})


def error_of_upload(parquet: Path, *answers: Answer, session_token: str | None = None) -> ConnectorError:
    with CannedServer(*answers) as server, pytest.raises(ConnectorError) as caught:
        store(server.url, session_token=session_token).upload(parquet, "t/part-0.parquet")
    assert "uploading s3://lake/t/part-0.parquet" in str(caught.value)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (refusal(503, "SlowDown", "Please reduce your request rate."), "SlowDown"),
        (refusal(503, "ServiceUnavailable", "Try later"), "ServiceUnavailable"),
        (refusal(500, "InternalError", "We encountered an internal error."), "InternalError"),
        (refusal(400, "RequestTimeout", "Your socket connection was not read from in time."), "RequestTimeout"),
        (refusal(400, "BadDigest", "The checksum did not match what we received."), "BadDigest"),
        (refusal(409, "OperationAborted", "A conflicting operation is in progress."), "OperationAborted"),
        (refusal(403, "RequestTimeTooSkewed", "The difference is too large."), "clock"),
        (refusal(400, "ExpiredToken", "The provided token has expired."), "role"),
        (refusal(507, "XMinioStorageFull", "Storage backend has reached its minimum."), "Free some space"),
        (Answer(429), "429"),
        (Answer(503, b"<html>busy<br>"), "AWS_ENDPOINT_URL"),
        (Answer(200, b"<html></html>"), "no ETag"),
    ],
)
def test_what_passes_is_retryable(parquet: Path, answer: Answer, hint: str) -> None:
    error = error_of_upload(parquet, answer)

    assert isinstance(error, RetryableError)
    assert hint in str(error)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (refusal(403, "InvalidAccessKeyId", "The key does not exist in our records."), "AWS_ACCESS_KEY_ID"),
        (refusal(403, "SignatureDoesNotMatch", "The signature does not match."), "AWS_SECRET_ACCESS_KEY"),
        (refusal(403, "AccessDenied", "Access Denied."), "Allow s3:PutObject"),
        (refusal(403, "AllAccessDisabled", "All access has been disabled."), "ask its owner"),
        (refusal(403, "QuotaExceeded", "The bucket is full."), "quota"),
        (refusal(400, "XMinioAdminBucketQuotaExceeded", "Bucket quota exceeded"), "quota"),
        (refusal(404, "NoSuchBucket", "The specified bucket does not exist"), "S3_BUCKET"),
        (refusal(400, "InvalidToken", "The token is malformed."), "AWS_SESSION_TOKEN"),
        (refusal(400, "EntityTooLarge", "The upload exceeds the maximum size."), "Look up EntityTooLarge"),
        (Answer(404, b"no such page"), "AWS_ENDPOINT_URL"),
    ],
)
def test_what_does_not_pass_is_fatal(parquet: Path, answer: Answer, hint: str) -> None:
    error = error_of_upload(parquet, answer)

    assert isinstance(error, FatalError)
    assert hint in str(error)


def test_the_refused_action_is_the_one_the_answer_names(parquet: Path) -> None:
    message = "User: arn:aws:iam::1:user/x is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:y"

    error = error_of_upload(parquet, refusal(403, "AccessDenied", message))

    assert "Allow kms:GenerateDataKey" in error.hint


def test_a_token_from_the_settings_that_expired_is_fatal_because_nobody_renews_it(parquet: Path) -> None:
    error = error_of_upload(parquet, refusal(400, "ExpiredToken", "The token has expired."), session_token=TOKEN)

    assert isinstance(error, FatalError)
    assert "AWS_SESSION_TOKEN" in error.hint
    assert TOKEN not in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT", "Date": "Sun, 06 Nov 1994 08:49:07 GMT"}, 30.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:49:07 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_the_store_asks_for_is_handed_on(
    parquet: Path, headers: dict[str, str], seconds: float | None
) -> None:
    error = error_of_upload(parquet, refusal(503, "SlowDown", "Slow down", headers=headers))

    assert isinstance(error, RetryableError)
    assert error.retry_after == seconds


def test_a_failure_that_passes_at_once_is_not_seen(parquet: Path) -> None:
    with CannedServer(refusal(503, "SlowDown", "Slow down"), Answer(200, headers={"ETag": '"1"'})) as server:
        stored = store(server.url).upload(parquet, "t/part-0.parquet")

    assert stored.size == 4
    assert [request.body for request in server.requests] == [b"PAR1", b"PAR1"]


@pytest.mark.parametrize("headers", [{"x-amz-bucket-region": "eu-west-1"}, {}])
def test_a_bucket_in_another_region_that_cannot_be_followed_names_that_region(headers: dict[str, str]) -> None:
    moved = refusal(301, "PermanentRedirect", "Use the endpoint.", extra="<Region>eu-west-1</Region>", headers=headers)

    with CannedServer(moved) as server, pytest.raises(ConfigError, match=r"s3://lake.*set AWS_REGION"):
        store(server.url).connect("")


def test_a_bucket_in_another_region_is_followed_and_told(caplog: pytest.LogCaptureFixture) -> None:
    region = {"x-amz-bucket-region": "eu-west-1"}
    moved = refusal(301, "PermanentRedirect", "Use the endpoint.", headers=region)

    with CannedServer(moved, Answer(200, LISTING, region)) as server, caplog.at_level(logging.WARNING):
        store(server.url).connect("")

    assert "/eu-west-1/s3/" in server.requests[1].headers["authorization"]
    assert "AWS_REGION=eu-west-1" in caplog.text


def test_a_redirect_to_another_address_names_it() -> None:
    elsewhere = Answer(308, headers={"Location": "https://minio.example.com/"})

    with (
        CannedServer(elsewhere) as server,
        pytest.raises(ConfigError, match=r"https://minio\.example\.com/.*AWS_ENDPOINT"),
    ):
        store(server.url).connect("")


@pytest.mark.parametrize("body", [b"", b"<html></html>"])
def test_a_web_server_that_agrees_to_everything_is_no_store(body: bytes) -> None:
    with CannedServer(Answer(200, body)) as server, pytest.raises(ConfigError, match="not the listing of a bucket"):
        store(server.url).connect("")


def test_a_name_taken_by_somebody_else_asks_for_another() -> None:
    missing = refusal(404, "NoSuchBucket", "The specified bucket does not exist")
    taken = refusal(409, "BucketAlreadyExists", "The name is not available.")

    with CannedServer(missing, taken) as server, pytest.raises(ConfigError, match=r"creating the bucket.*S3_BUCKET"):
        store(server.url).connect("")


def test_another_replica_that_creates_the_bucket_first_does_no_harm() -> None:
    missing = refusal(404, "NoSuchBucket", "The specified bucket does not exist")
    ours = refusal(409, "BucketAlreadyOwnedByYou", "You own it.")

    with CannedServer(missing, ours, Answer(200, LISTING)) as server:
        store(server.url).connect("")

    assert [request.method for request in server.requests] == ["GET", "PUT", "GET"]


def test_a_custom_endpoint_is_addressed_by_path_and_gets_no_unasked_checksums(parquet: Path) -> None:
    with CannedServer(Answer(200, headers={"ETag": '"1"'})) as server:
        store(server.url).upload(parquet, "t/day=1/part-0.parquet")

    (request,) = server.requests
    assert request.path == "/lake/t/day%3D1/part-0.parquet"
    assert request.headers["content-type"] == "application/vnd.apache.parquet"
    assert not [name for name in request.headers if "checksum" in name or name == "x-amz-trailer"]


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x01\x00\x02\x02\x28"])
def test_a_connection_that_is_cut_is_retryable(parquet: Path, answer: bytes) -> None:
    with raw_server(answer) as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(RetryableError, match=r"uploading s3://lake/t/x\.parquet"):
            store(url).upload(parquet, "t/x.parquet")


def test_a_handshake_that_is_cut_is_retryable(parquet: Path) -> None:
    with raw_server(b"") as port, pytest.raises(RetryableError, match="uploading"):
        store(f"https://127.0.0.1:{port}").upload(parquet, "t/x.parquet")


def test_https_to_a_server_without_it_is_fatal(parquet: Path) -> None:
    with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, pytest.raises(FatalError, match="AWS_ENDPOINT_URL"):
        store(f"https://127.0.0.1:{port}").upload(parquet, "t/x.parquet")


def test_a_file_that_is_gone_is_fatal_and_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone.parquet"

    with pytest.raises(FatalError, match=r"uploading s3://lake/x.*gone\.parquet"):
        store("http://127.0.0.1:9").upload(gone, "x")


@contextmanager
def raw_server(answer: bytes) -> Iterator[int]:
    """Accept, read something, send ``answer`` as it is and hang up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
