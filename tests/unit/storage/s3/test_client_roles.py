"""Keys that a token of the machine gives; renewed before they expire."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.errors import FatalError, RetryableError
from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.metadata_server import RoleServer
from tests.fakes.outgoing import Outgoing

LASTING = timedelta(hours=6)
EXPIRING = timedelta(minutes=5)  # botocore renews keys 10 to 15 minutes before they expire
ARN = "arn:aws:iam::123456789012:role/lake-writer"


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys but those that a test gives."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    # keys of a machine that are about to expire are used for 17 to 25 minutes more, here for 5: the service may be busy
    monkeypatch.setattr("botocore.utils.random.randint", lambda *_: -600)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    return path


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first-token")
    return path


@pytest.fixture
def lake() -> Iterator[CannedServer]:
    with CannedServer(Answer(200, headers={"ETag": '"1"'})) as server:
        yield server


def store(endpoint_url: str | None, region: str = "us-east-1") -> S3Store:
    return S3Store(S3Target("lake", region=region, endpoint_url=endpoint_url), max_workers=1)


def keys_used(server: CannedServer) -> list[tuple[str, str]]:
    """Key and session token of each request."""
    headers = [request.headers for request in server.requests]
    return [
        (each["authorization"].partition("Credential=")[2].partition("/")[0], each["x-amz-security-token"])
        for each in headers
    ]


def test_a_token_that_is_replaced_is_read_again(
    lake: CannedServer, file: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kubernetes cluster writes a new one long before the old one expires."""
    with RoleServer(EXPIRING) as roles:
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        monkeypatch.setenv("AWS_ROLE_ARN", ARN)
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", roles.url)
        bucket = store(lake.url)
        bucket.upload(file, "a")
        token.write_text("second-token")
        bucket.upload(file, "b")

    assert roles.tokens[0] == "first-token"
    assert roles.tokens[-1] == "second-token"


@pytest.mark.parametrize(
    ("region", "service"),
    [("eu-west-1", "sts.eu-west-1.amazonaws.com"), ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn")],
)
def test_a_token_is_taken_to_the_token_service_of_the_region(
    region: str, service: str, token: Path, monkeypatch: pytest.MonkeyPatch, outgoing: Outgoing
) -> None:
    """Not to the private address that a store of AWS may have in a network without internet."""
    private = f"https://bucket.vpce-1a2b-3c4d.s3.{region}.vpce.amazonaws.com"
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", ARN)
    monkeypatch.setenv("AWS_ENDPOINT_URL", private)

    with pytest.raises(RetryableError):  # the answer here is empty
        store(private, region).read("x")

    # A thread of an earlier test may still ask a store of this machine.
    assert {host for host in outgoing.hosts if host != "127.0.0.1"} == {service}


def test_another_store_has_its_token_service_at_its_own_address(
    lake: CannedServer, file: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MinIO has; a token of its identity provider gives keys there."""
    with RoleServer(LASTING) as roles:
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        monkeypatch.setenv("AWS_ROLE_ARN", ARN)
        monkeypatch.setenv("AWS_ENDPOINT_URL", roles.url)
        store(lake.url).upload(file, "a")

    assert keys_used(lake) == [("ROLEKEY1", "role-token-1")]


def test_a_token_that_is_not_there_is_named(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token.unlink()
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", ARN)

    with pytest.raises(FatalError, match=f"connecting to s3://lake.*{token}"):
        store(None).connect("")
