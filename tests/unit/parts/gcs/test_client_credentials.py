"""Where the token for Google Cloud Storage comes from, and what a user reads when there is none."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.parts.gcs.store import GcsStore
from app.storage.targets import GcsTarget
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.google_answers import NO_RETRY, content, refusal, said

STORED = content(b"{}", 1)
JSON = {"Content-Type": "application/json"}
EXPIRED = 0  # seconds that a token is good for


def token(name: str, seconds: int = 3600) -> Answer:
    return said({"access_token": name, "expires_in": seconds, "token_type": "Bearer"})


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials but those that a test gives."""
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "GCS_", "GCE_", "STORAGE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "no-gcloud"))
    monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", True)


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[CannedServer]:
    with CannedServer(STORED) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


def key_text(private_key: str, token_uri: str) -> str:
    email = "sink@sinks.iam.gserviceaccount.com"
    key = {"type": "service_account", "project_id": "sinks", "private_key_id": "1", "client_email": email}
    return json.dumps({**key, "private_key": private_key, "token_uri": token_uri})


def store(credentials_json: str | None) -> GcsStore:
    return GcsStore(GcsTarget("lake", credentials_json=credentials_json), max_workers=2, retry=NO_RETRY)


def sent(server: CannedServer) -> list[str]:
    return [request.headers.get("authorization", "") for request in server.requests]


def test_a_key_is_exchanged_for_a_token_which_goes_with_every_request(lake: CannedServer, private_key: str) -> None:
    with CannedServer(token("t1")) as google:
        client = store(key_text(private_key, google.url))
        client.read("a")
        client.read("b")

    assert sent(lake) == ["Bearer t1", "Bearer t1"]
    (request,) = google.requests
    assert b"assertion=" in request.body


def test_a_token_that_expired_is_fetched_anew(lake: CannedServer, private_key: str) -> None:
    with CannedServer(token("t1", EXPIRED), token("t2", EXPIRED), token("t3")) as google:
        client = store(key_text(private_key, google.url))
        for _ in range(4):
            client.read("a")

    assert sent(lake) == ["Bearer t1", "Bearer t2", "Bearer t3", "Bearer t3"]


def test_a_token_that_no_store_accepts_is_fatal(private_key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = refusal(401, "authError", "Invalid Credentials")
    with CannedServer(refused) as lake, CannedServer(token("t1")) as google:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", lake.url)
        error = error_with(FatalError, key_text(private_key, google.url))

    assert "Invalid Credentials" in error.cause
    assert "GCS_CREDENTIALS_JSON" in error.hint


def test_the_file_that_the_environment_names_is_used(
    lake: CannedServer, private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setenv("API_ENDPOINT_OVERRIDE", lake.url)
    file = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with CannedServer(token("t1")) as google:
        file.write_text(key_text(private_key, google.url))
        store(None).read("a")

    assert sent(lake) == ["Bearer t1"]


def error_with(kind: type[ConnectorError], credentials_json: str | None) -> ConnectorError:
    with pytest.raises(kind, match="connecting to gs://lake") as caught:
        store(credentials_json).connect("")
    return caught.value


def test_no_credentials_anywhere_names_the_ways_to_give_some() -> None:
    error = error_with(ConfigError, None)

    for way in ("GCS_CREDENTIALS_JSON", "GOOGLE_APPLICATION_CREDENTIALS", "service account"):
        assert way in error.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cr3t",
        "[1]",
        '"s3cr3t"',
        "{}",
        '{"type": "authorized_user", "refresh_token": "s3cr3t"}',
        key_text("-----BEGIN PRIVATE KEY-----\ns3cr3t\n-----END PRIVATE KEY-----\n", "http://127.0.0.1:1"),
    ],
    ids=range(7),
)
def test_a_text_that_is_no_key_is_not_shown(text: str) -> None:
    error = error_with(ConfigError, text)

    assert "GCS_CREDENTIALS_JSON" in error.cause
    assert "s3cr3t" not in str(error)


@pytest.mark.parametrize(
    ("status", "message", "kind", "shown"),
    [
        (400, "Invalid JWT Signature.", FatalError, "Invalid JWT Signature"),
        (400, "Invalid grant: account not found", FatalError, "exist and are enabled"),
        (400, "Invalid JWT: Token must be a short-lived token (60 minutes)", RetryableError, "clock (NTP)"),
        (503, "try later", RetryableError, "no token was issued"),
    ],
    ids=["signature", "account", "clock", "outage"],
)
def test_a_token_that_is_refused_says_why(
    lake: CannedServer, private_key: str, status: int, message: str, kind: type[ConnectorError], shown: str
) -> None:
    document = {"error": "invalid_grant" if status == 400 else "unavailable", "error_description": message}
    answer = Answer(status, json.dumps(document).encode(), JSON)
    with CannedServer(answer) as google:
        error = error_with(kind, key_text(private_key, google.url))

    assert shown in str(error)
    assert not lake.requests


def test_a_token_service_that_is_away_is_waited_for(lake: CannedServer, private_key: str) -> None:
    error = error_with(RetryableError, key_text(private_key, "http://127.0.0.1:9"))

    assert "refused" in error.cause
    assert "token service" in error.hint


def test_nothing_secret_is_logged_at_debug(
    lake: CannedServer, private_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    with CannedServer(token("t0ken-1")) as google, caplog.at_level(logging.DEBUG):
        store(key_text(private_key, google.url)).read("a")

    assert "t0ken-1" not in caplog.text
    assert private_key.splitlines()[1] not in caplog.text
