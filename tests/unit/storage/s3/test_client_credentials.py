"""Where the keys come from, and what a user reads when they cannot be used."""

import json
import os
from pathlib import Path

import pytest

from app.errors import ConfigError, RetryableError
from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from tests.fakes.canned_server import Answer, CannedServer

STORED = Answer(200, headers={"ETag": '"1"'})
ROLE = {
    "AccessKeyId": "ROLEKEY1",
    "SecretAccessKey": "role-secret",
    "Token": "role-token",
    "Expiration": "2099-01-01T00:00:00Z",
}


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys but those that a test gives."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    return path


def store(  # one line per case below
    endpoint_url: str | None,
    access_key: str | None = None,
    secret_key: str | None = None,
    session_token: str | None = None,
    region: str = "us-east-1",
    bucket: str = "lake",
) -> S3Store:
    return S3Store(
        S3Target(
            bucket,
            region=region,
            endpoint_url=endpoint_url,
            access_key=access_key,
            secret_key=secret_key,
            session_token=session_token,
        ),
        max_workers=1,
    )


def test_keys_from_the_settings_are_used_and_a_token_of_the_environment_is_not(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-key")

    with CannedServer(STORED) as server:
        store(server.url, "AKIA1", "secret").upload(file, "x")

    assert "Credential=AKIA1/" in server.requests[0].headers["authorization"]
    assert "x-amz-security-token" not in server.requests[0].headers


def test_a_session_token_travels_with_its_keys(file: Path) -> None:
    with CannedServer(STORED) as server:
        store(server.url, "ASIA1", "secret", "token").upload(file, "x")

    assert server.requests[0].headers["x-amz-security-token"] == "token"


def test_without_keys_those_of_the_role_are_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with CannedServer(Answer(200, json.dumps(ROLE).encode())) as role, CannedServer(STORED) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.url)
        store(server.url).upload(file, "x")

    assert "Credential=ROLEKEY1/" in server.requests[0].headers["authorization"]
    assert server.requests[0].headers["x-amz-security-token"] == "role-token"


def test_a_role_that_does_not_answer_at_first_is_asked_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    awake = Answer(200, json.dumps(ROLE).encode())
    with CannedServer(*[Answer(500)] * 3, awake) as role, CannedServer(STORED) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.url)
        lake = store(server.url)
        with pytest.raises(RetryableError, match=r"uploading s3://lake/x.*Check the role"):
            lake.upload(file, "x")
        lake.upload(file, "x")

    assert "Credential=ROLEKEY1/" in server.requests[0].headers["authorization"]


def test_no_keys_anywhere_names_the_variables() -> None:
    with (
        CannedServer(STORED) as server,
        pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ):
        store(server.url).connect("")


@pytest.mark.parametrize(("access_key", "secret_key"), [("AKIA1", None), (None, "s3cr3t")])
def test_half_of_the_keys_names_both_variables(access_key: str | None, secret_key: str | None) -> None:
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as caught:
        store(None, access_key, secret_key).connect("")

    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("bad", ["AKIA1\n", '"AKIA 1"', "AKIÄ"])
def test_a_key_that_cannot_be_one_is_named_and_not_shown(bad: str) -> None:
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID holds a blank") as caught:
        store(None, bad, "secret").connect("")

    assert bad.strip() not in str(caught.value)


def test_a_token_with_a_line_end_is_named_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="AWS_SESSION_TOKEN holds a blank") as caught:
        store(None, "AKIA1", "secret", "t0ken\n").connect("")

    assert "t0ken" not in str(caught.value)


@pytest.mark.parametrize(("endpoint_url", "region"), [("127.0.0.1:9000", "us-east-1"), (None, ""), (None, "EU WEST")])
def test_an_address_that_is_none_names_its_variables(endpoint_url: str | None, region: str) -> None:
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL and AWS_REGION"):
        store(endpoint_url, "AKIA1", "secret", region=region).connect("")


def test_a_name_that_no_bucket_can_have_names_its_variable() -> None:
    with CannedServer(STORED) as server, pytest.raises(ConfigError, match="S3_BUCKET"):
        store(server.url, "AKIA1", "secret", bucket="my lake").connect("")
