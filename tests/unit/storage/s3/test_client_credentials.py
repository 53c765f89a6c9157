"""Where the keys come from, and what a user reads when they cannot be used."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from app.errors import ConfigError, FatalError, RetryableError
from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.outgoing import Outgoing

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
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)


def store(
    endpoint_url: str | None,
    access_key: str | None = None,
    secret_key: str | None = None,
    session_token: str | None = None,
    region: str = "us-east-1",
    bucket: str = "lake",
) -> S3Store:
    return S3Store(S3Target(bucket, region, endpoint_url, access_key, secret_key, session_token), max_workers=1)


def test_keys_from_the_settings_are_used_and_a_token_of_the_environment_is_not(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-key")

    with CannedServer(STORED) as server:
        store(server.url, "AKIA1", "secret").upload(file, "x")
        store(server.url, "ASIA1", "secret", "token").upload(file, "x")

    assert keys_used(server) == [("AKIA1", None), ("ASIA1", "token")]


def test_a_role_that_does_not_answer_at_first_is_asked_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    awake = Answer(200, json.dumps(ROLE).encode())
    with CannedServer(*[Answer(500)] * 3, awake) as role, CannedServer(STORED) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.url)
        lake = store(server.url)
        with pytest.raises(RetryableError, match=r"uploading s3://lake/x.*Check the role"):
            lake.upload(file, "x")
        lake.upload(file, "x")

    assert keys_used(server) == [("ROLEKEY1", "role-token")]


BOTH = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
KEYS = {"access_key": "AKIA1", "secret_key": "s3cr3t"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, BOTH),
        ({"access_key": "AKIA1"}, BOTH),
        ({"secret_key": "s3cr3t"}, BOTH),
        ({**KEYS, "access_key": "AKIA1\n"}, "AWS_ACCESS_KEY_ID holds a blank"),
        ({**KEYS, "access_key": '"AKIA 1"'}, "AWS_ACCESS_KEY_ID holds a blank"),
        ({**KEYS, "access_key": "AKIÄ"}, "AWS_ACCESS_KEY_ID holds a blank"),
        ({**KEYS, "session_token": "t0ken\n"}, "AWS_SESSION_TOKEN holds a blank"),
        ({**KEYS, "endpoint_url": "127.0.0.1:9000"}, "AWS_ENDPOINT_URL and AWS_REGION"),
        ({**KEYS, "endpoint_url": None, "region": ""}, "AWS_ENDPOINT_URL and AWS_REGION"),
        ({**KEYS, "endpoint_url": None, "region": "EU WEST"}, "AWS_ENDPOINT_URL and AWS_REGION"),
        ({**KEYS, "bucket": "my lake"}, "S3_BUCKET"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_variable_and_no_key_is_shown(given: dict[str, Any], named: str) -> None:
    with CannedServer(STORED) as server, pytest.raises(ConfigError, match=named) as caught:
        store(**{"endpoint_url": server.url, **given}).connect("")
    keys = [given[name].strip() for name in ("access_key", "secret_key", "session_token") if name in given]
    assert not [key for key in keys if key in str(caught.value)]


# --- keys that a token of the machine gives; renewed before they expire ---------------------------------------------


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "token"
    path.write_text("first-token")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(path))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/lake-writer")
    return path


@pytest.fixture
def lake() -> Iterator[CannedServer]:
    with CannedServer(Answer(200, headers={"ETag": '"1"'})) as server:
        yield server


def keys_used(server: CannedServer) -> list[tuple[str, str | None]]:
    return [
        (sent["authorization"].partition("Credential=")[2].partition("/")[0], sent.get("x-amz-security-token"))
        for sent in (request.headers for request in server.requests)
    ]


def role_keys(lifetime: timedelta) -> Answer:
    """What the token service of AWS gives for a token."""
    body = f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{ROLE["AccessKeyId"]}</AccessKeyId>
<SecretAccessKey>{ROLE["SecretAccessKey"]}</SecretAccessKey><SessionToken>{ROLE["Token"]}</SessionToken>
<Expiration>{datetime.now(UTC) + lifetime:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
    return Answer(body=body.encode(), headers={"Content-Type": "text/xml"})


def test_a_token_that_is_replaced_is_read_again(
    lake: CannedServer, file: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kubernetes cluster writes a new one long before the old one expires."""
    soon = role_keys(timedelta(minutes=5))  # botocore renews keys 10 to 15 minutes before they expire
    with CannedServer(soon) as roles:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", roles.url)
        bucket = store(lake.url)
        bucket.upload(file, "a")
        token.write_text("second-token")
        bucket.upload(file, "b")

    tokens = [parse_qs(request.body.decode())["WebIdentityToken"] for request in roles.requests]
    assert (tokens[0], tokens[-1]) == (["first-token"], ["second-token"])


@pytest.mark.parametrize(
    ("region", "service"),
    [("eu-west-1", "sts.eu-west-1.amazonaws.com"), ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn")],
)
def test_a_token_is_taken_to_the_token_service_of_the_region(
    region: str, service: str, token: Path, monkeypatch: pytest.MonkeyPatch, outgoing: Outgoing
) -> None:
    """Not to the private address that a store of AWS may have in a network without internet."""
    private = f"https://bucket.vpce-1a2b-3c4d.s3.{region}.vpce.amazonaws.com"
    monkeypatch.setenv("AWS_ENDPOINT_URL", private)

    with pytest.raises(RetryableError):  # the answer here is empty
        store(private, region=region).read("x")

    # A thread of an earlier test may still ask a store of this machine.
    assert {host for host in outgoing.hosts if host != "127.0.0.1"} == {service}


def test_another_store_has_its_token_service_at_its_own_address(
    lake: CannedServer, file: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MinIO has; a token of its identity provider gives keys there."""
    with CannedServer(role_keys(timedelta(hours=6))) as roles:
        monkeypatch.setenv("AWS_ENDPOINT_URL", roles.url)
        store(lake.url).upload(file, "a")

    assert keys_used(lake) == [("ROLEKEY1", "role-token")]


def test_a_token_that_is_not_there_is_named(token: Path) -> None:
    token.unlink()

    with pytest.raises(FatalError, match=f"connecting to s3://lake.*{token}"):
        store(None).connect("")
