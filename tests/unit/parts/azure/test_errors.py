"""Every way Azure can say no, as the user gets to see it: over a real connection, with the answers put in its mouth."""

import logging
from pathlib import Path

import pytest

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.parts.azure.store import AzureStore
from app.storage.targets import AzureTarget
from dev.server import free_ports
from tests.fakes.azure_answers import KEY, azure_store, listing, refusal, written
from tests.fakes.canned_server import Answer, CannedServer

SIGNATURE = "s1gnature%2Fthat%2Bstays%3D"
SAS = f"sv=2026-01-01&sr=c&sp=rcwdl&se=2099-01-01T00:00:00Z&sig={SIGNATURE}"
READ_ONLY = SAS.replace("rcwdl", "rl")
TIME_FRAME = "Signature not valid in the specified time frame: Start [x] - Expiry [y] - Current [z]"
MAC = (
    "The MAC signature found in the HTTP request 'c2lnbmF0dXJl=' is not the same as any computed signature. "
    "Server used following string to sign: 'PUT"
)


def error_of_upload(
    kind: type[ConnectorError], file: Path, *answers: Answer, sas_token: str | None = None
) -> ConnectorError:
    with CannedServer(*answers) as server, pytest.raises(kind) as caught:
        azure_store(server.url, sas_token=sas_token).upload(file, "t/part-0.parquet")
    assert "uploading az://lake/t/part-0.parquet (storage account acme)" in str(caught.value)
    assert not {KEY, SIGNATURE, "c2lnbmF0dXJl"} & set(str(caught.value).replace("'", " ").split())
    assert "RequestId" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (refusal(503, "ServerBusy", "The server is currently unable to receive requests."), "(ServerBusy)"),
        (refusal(500, "OperationTimedOut", "Operation could not be completed within the time."), "(OperationTimedOut)"),
        (refusal(400, "Md5Mismatch", "The MD5 value did not match."), "(Md5Mismatch)"),
        (refusal(400, "InvalidBlockList", "The specified block list is invalid."), "(InvalidBlockList)"),
        (refusal(409, "ContainerBeingDeleted", "The container is being deleted."), "(ContainerBeingDeleted)"),
        (refusal(403, "AuthenticationFailed", detail="Request date header too old: 'x'"), "clock"),
        (Answer(429), "HTTP 429"),
        (Answer(503, b"<html>busy<br>"), "AZURE_ENDPOINT_URL"),
        (Answer(503, "<html>überlastet".encode("latin-1")), "AZURE_ENDPOINT_URL"),
        (Answer(200, b"<html></html>"), "does not come from Azure"),
        (Answer(201, b""), "does not come from Azure"),
    ],
)
def test_what_passes_is_retryable(file: Path, answer: Answer, hint: str) -> None:
    assert hint in str(error_of_upload(RetryableError, file, answer))


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (refusal(403, "AuthenticationFailed", "Server failed to authenticate.", MAC), "Check AZURE_STORAGE_KEY"),
        (refusal(403, "AuthorizationFailure", "This request is not authorized."), "firewall"),
        (refusal(403, "KeyBasedAuthenticationNotPermitted"), "Storage Blob Data Contributor"),
        (refusal(413, "RequestBodyTooLarge", "The body is too large."), "look up RequestBodyTooLarge"),
        (Answer(403, b"<html>proxy"), "any proxy on the way"),
        (Answer(404, b"no such page"), "any proxy on the way"),
    ],
)
def test_what_does_not_pass_is_fatal(file: Path, answer: Answer, hint: str) -> None:
    assert hint in str(error_of_upload(FatalError, file, answer))


@pytest.mark.parametrize(
    ("token", "answer", "hint"),
    [
        (READ_ONLY, refusal(403, "AuthorizationPermissionMismatch"), "Set AZURE_STORAGE_SAS_TOKEN with a signature"),
        (SAS, refusal(403, "AuthenticationFailed"), "Check AZURE_STORAGE_SAS_TOKEN"),
        (SAS, refusal(403, "AuthenticationFailed", detail=TIME_FRAME), TIME_FRAME),
    ],
)
def test_a_signature_that_does_not_let_in_says_what_it_lacks(file: Path, token: str, answer: Answer, hint: str) -> None:
    assert hint in str(error_of_upload(FatalError, file, answer, sas_token=token))


@pytest.mark.parametrize("sas_token", [None, SAS])
def test_a_service_that_is_not_there_is_retryable_and_named(sas_token: str | None) -> None:
    [port] = free_ports(1)

    with pytest.raises(RetryableError, match=rf"127\.0\.0\.1:{port}.*refused.*AZURE_STORAGE_ACCOUNT") as caught:
        azure_store(f"http://127.0.0.1:{port}", sas_token=sas_token).read("k")
    assert str(caught.value).startswith("reading az://lake/k")
    assert SIGNATURE not in str(caught.value)
    assert caught.value.__cause__ is None  # whose text has the signature in it


def test_https_to_a_server_that_speaks_http_names_the_setting() -> None:
    with CannedServer(listing()) as server, pytest.raises(FatalError, match="https:// in AZURE_ENDPOINT_URL") as caught:
        azure_store(server.url.replace("http:", "https:"), sas_token=SAS).connect("")
    assert SIGNATURE not in str(caught.value)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_neither_key_nor_signature_is_in_a_log(file: Path, level: int, caplog: pytest.LogCaptureFixture) -> None:
    for sas_token in (None, SAS):
        with CannedServer(refusal(503, "ServerBusy"), written('"1"')) as server, caplog.at_level(level):
            logging.getLogger("urllib3").setLevel(logging.WARNING)  # as set_up_logging does
            azure_store(server.url, sas_token=sas_token).upload(file, "t/part-0.parquet")

    assert SIGNATURE not in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("text", ["nonsense", "AccountKey=c2VjcmV0LWtleQ=="])
def test_a_connection_string_that_cannot_be_read_names_its_variable(text: str) -> None:
    store = AzureStore(AzureTarget("lake", connection_string=text), max_workers=1)

    with pytest.raises(ConfigError, match="AZURE_STORAGE_CONNECTION_STRING") as caught:
        store.connect("")
    assert "c2VjcmV0LWtleQ" not in str(caught.value)


def test_a_key_that_is_none_is_told_before_it_is_sent() -> None:
    with (
        CannedServer(listing()) as server,
        pytest.raises(ConfigError, match=r"the account key is not base64.*AZURE_STORAGE_KEY"),
    ):
        azure_store(server.url, key="no base64 at all").connect("")
    assert not server.requests
