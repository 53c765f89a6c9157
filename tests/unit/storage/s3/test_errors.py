"""Every way S3 can say no, as the user gets to see it: over a real connection, with the answers put in its mouth."""

from pathlib import Path

import pytest

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.s3_answers import SECRET, refusal, s3_store

TOKEN = "t0ken-that-stays"


def error_of_upload(
    kind: type[ConnectorError], file: Path, *answers: Answer, session_token: str | None = None
) -> ConnectorError:
    with CannedServer(*answers) as server, pytest.raises(kind) as caught:
        s3_store(server.url, session_token=session_token).upload(file, "t/part-0.parquet")
    assert "uploading s3://lake/t/part-0.parquet" in str(caught.value)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (refusal(503, "SlowDown", "Please reduce your request rate."), "SlowDown"),
        (refusal(400, "RequestTimeout", "Your socket connection was not read from in time."), "RequestTimeout"),
        (refusal(400, "BadDigest", "The checksum did not match what we received."), "BadDigest"),
        (refusal(403, "RequestTimeTooSkewed", "The difference is too large."), "clock"),
        (refusal(400, "ExpiredToken", "The provided token has expired."), "role"),
        (refusal(507, "XMinioStorageFull", "Storage backend has reached its minimum."), "Free some space"),
        (refusal(503, "", ""), "HTTP 503"),
        (Answer(429), "429"),
        (Answer(503, b"<html>busy<br>"), "AWS_ENDPOINT_URL"),
        (Answer(200, b"<html></html>"), "no ETag"),
    ],
)
def test_what_passes_is_retryable(file: Path, answer: Answer, hint: str) -> None:
    assert hint in str(error_of_upload(RetryableError, file, answer))


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (refusal(403, "InvalidAccessKeyId", "The key does not exist in our records."), "AWS_ACCESS_KEY_ID"),
        (refusal(403, "SignatureDoesNotMatch", "The signature does not match."), "AWS_SECRET_ACCESS_KEY"),
        (refusal(403, "AccessDenied", "Access Denied."), "Allow s3:PutObject"),
        (refusal(400, "InvalidToken", "The token is malformed."), "AWS_SESSION_TOKEN"),
        (refusal(400, "EntityTooLarge", "The upload exceeds the maximum size."), "Look up EntityTooLarge"),
        (Answer(404, b"no such page"), "AWS_ENDPOINT_URL"),
    ],
)
def test_what_does_not_pass_is_fatal(file: Path, answer: Answer, hint: str) -> None:
    assert hint in str(error_of_upload(FatalError, file, answer))


@pytest.mark.parametrize("status", [403, 404, 500])
@pytest.mark.parametrize(
    ("promised", "sent"), [({"Content-Length": "100"}, b""), ({"Transfer-Encoding": "chunked"}, b"64\r\n")]
)
def test_an_error_answer_that_is_cut_off_is_retryable(
    file: Path, status: int, promised: dict[str, str], sent: bytes
) -> None:
    """A load balancer restarts: what a 404 means is not known before all of it is there."""
    cut = Answer(
        status, sent + b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code>", {**promised, "Connection": "close"}
    )
    with CannedServer(cut) as server:
        store = s3_store(server.url)
        for ask in (store.read, store.find, store.delete, lambda key: store.upload(file, key)):
            with pytest.raises(RetryableError):
                ask("t/x")


def test_the_refused_action_is_the_one_the_answer_names(file: Path) -> None:
    message = "User: arn:aws:iam::1:user/x is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:y"

    error = error_of_upload(FatalError, file, refusal(403, "AccessDenied", message))

    assert "Allow kms:GenerateDataKey" in error.hint


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_is_used_and_its_password_not_shown(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for way in ("http", "https"):
        monkeypatch.setenv(f"{way}_proxy", f"{scheme}://user:hush@127.0.0.1:1")
        with pytest.raises(RetryableError, match=r"proxy.*@127\.0\.0\.1:1") as caught:
            s3_store(f"{way}://s3.example").read("t/x")
        assert "hush" not in str(caught.value)


def test_a_token_from_the_settings_that_expired_is_fatal_because_nobody_renews_it(file: Path) -> None:
    error = error_of_upload(
        FatalError, file, refusal(400, "ExpiredToken", "The token has expired."), session_token=TOKEN
    )

    assert "AWS_SESSION_TOKEN" in error.hint
    assert TOKEN not in str(error)


@pytest.mark.parametrize("headers", [{"x-amz-bucket-region": "eu-west-1"}, {}])
def test_a_bucket_in_another_region_that_cannot_be_followed_names_that_region(headers: dict[str, str]) -> None:
    moved = refusal(301, "PermanentRedirect", "Use the endpoint.", extra="<Region>eu-west-1</Region>", headers=headers)

    with CannedServer(moved) as server, pytest.raises(ConfigError, match=r"s3://lake.*set AWS_REGION"):
        s3_store(server.url).connect("")


def test_an_address_that_has_the_bucket_already_is_told() -> None:
    """The store takes the bucket's name for a key."""
    with (
        CannedServer(refusal(404, "NoSuchKey")) as server,
        pytest.raises(ConfigError, match="AWS_ENDPOINT_URL contains the"),
    ):
        s3_store(server.url).connect("data/")


def test_a_custom_endpoint_is_addressed_by_path_and_gets_no_unasked_checksums(file: Path) -> None:
    with CannedServer(Answer(200, headers={"ETag": '"1"'})) as server:
        s3_store(server.url).upload(file, "t/day=1/part-0.parquet")

    (request,) = server.requests
    assert request.path == "/lake/t/day%3D1/part-0.parquet"
    assert request.headers["content-type"] == "application/vnd.apache.parquet"
    assert not [name for name in request.headers if "checksum" in name or name == "x-amz-trailer"]
