"""What lets in at Azure: a signature; and an identity of the machine, at an Azurite that asks for tokens over HTTPS."""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import DefaultAzureCredential
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from app.errors import ConfigError, FatalError, RetryableError
from app.parts.azure.store import AzureStore
from app.storage.targets import AzureTarget
from dev.azurite import LocalAzurite
from tests.fakes.canned_server import Answer, CannedServer

pytestmark = pytest.mark.night  # for every day: tests/unit/parts/azure

HEADER = "secret-of-the-identity-service"
AUDIENCE = "https://storage.azure.com"
SHORT = 200  # seconds: Azure's library wants another token where less than 240 to 300 are left


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 with all who signed it, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    chain, key = folder / "chain.pem", folder / "key.pem"
    for pem in (*issued.cert_chain_pems, authority.cert_pem):
        pem.write_to_path(str(chain), append=True)
    issued.private_key_pem.write_to_path(str(key))
    return chain, key


@pytest.fixture(scope="module")
def guarded(azurite: LocalAzurite, certificate: tuple[Path, Path]) -> Iterator[LocalAzurite]:
    """An Azurite that takes tokens; ``azurite`` has fetched the program."""
    with LocalAzurite(certificate) as server:
        server.client().create_container("lake")
        yield server


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, certificate: tuple[Path, Path]) -> None:
    """No identity but the one that a test gives."""
    for name in [name for name in os.environ if name.startswith(("AZURE_", "IDENTITY_", "MSI_", "IMDS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    monkeypatch.setenv("PATH", "")  # no Azure CLI of the user's
    monkeypatch.setattr("azure.core.pipeline.transport.HttpTransport.sleep", lambda *_: None)


def token(seconds: int, audience: str) -> str:
    """A token as Entra ID gives it, for so long, without a signature."""
    now = int(time.time())
    claims = {
        "aud": audience,
        "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + seconds,
        "oid": "1",
        "tid": "2",
    }
    parts = (json.dumps({"alg": "RS256", "typ": "JWT"}), json.dumps(claims), "signature")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


@contextmanager
def identity_service(
    monkeypatch: pytest.MonkeyPatch, seconds: int, *answers: Answer, audience: str = AUDIENCE
) -> Iterator[CannedServer]:
    """The identity service of App Service and Container Apps, that first gives a token for so long."""
    given = {
        "access_token": token(seconds, audience),
        "expires_on": str(int(time.time()) + seconds),
        "resource": AUDIENCE,
        "token_type": "Bearer",
    }
    first = Answer(200, json.dumps(given).encode(), {"Content-Type": "application/json"})
    with CannedServer(first, *answers) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", HEADER)
        yield server


def store(server: LocalAzurite) -> AzureStore:
    return AzureStore(AzureTarget("lake", account=server.account, endpoint_url=server.endpoint_url), max_workers=2)


def test_the_identity_of_the_machine_lets_in(guarded: LocalAzurite, monkeypatch: pytest.MonkeyPatch) -> None:
    with identity_service(monkeypatch, 3600) as identity:
        lake = store(guarded)
        lake.connect("")
        etag = lake.write("k", b"{}", replaces=None)
        lake.write("k", b"{ }", replaces=etag)
        lake.delete("k")

    (request,) = identity.requests  # the token serves for as long as it is valid
    assert request.headers["x-identity-header"] == HEADER
    assert "resource=https://storage.azure.com" in request.path


def test_an_identity_that_the_account_does_not_know_is_named(
    guarded: LocalAzurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = identity_service(monkeypatch, 3600, audience="https://elsewhere.example.com")
    with elsewhere, pytest.raises(FatalError, match=r"connecting to az://lake.*identity"):
        store(guarded).connect("")


def test_a_machine_without_an_identity_is_told_what_to_set(
    guarded: LocalAzurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CannedServer(Answer(404)) as nothing:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", nothing.url)  # where machines have theirs
        with pytest.raises(ConfigError, match=r"no token was received.*managed or workload identity") as caught:
            store(guarded).connect("")
    assert "\n" not in str(caught.value)


def test_a_renewal_that_is_refused_is_no_answer_of_the_store(
    guarded: LocalAzurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entra ID refuses a workload's identity with an answer of its own, which comes with the error."""
    said = "AADSTS700024: the assertion is not within its time range"
    answer = SimpleNamespace(status_code=401, reason="Unauthorized", headers={}, text=lambda: "{}")

    def refuse(*_: object, **__: object) -> None:
        raise ClientAuthenticationError(said, response=answer)

    with identity_service(monkeypatch, SHORT):
        lake = store(guarded)
        lake.connect("")
        monkeypatch.setattr(DefaultAzureCredential, "get_token", refuse)
        with pytest.raises(RetryableError, match=rf"reading az://lake/k.*no token was received.*{said}"):
            lake.read("k")


Make = Callable[..., AzureStore]


def signature(azurite: LocalAzurite, container: str, permits: str, hours: float = 1.0) -> str:
    """A shared access signature for the container that ends in so many hours."""
    now = datetime.now(UTC)
    return generate_container_sas(
        azurite.account,
        container,
        azurite.key,
        permission=ContainerSasPermissions.from_string(permits),
        start=now - timedelta(days=1),
        expiry=now + timedelta(hours=hours),
    )


def test_a_signature_that_permits_all_that_is_needed_does(
    azure_store: Make, azurite: LocalAzurite, container: str, tmp_path: Path, file: Path
) -> None:
    for token in (signature(azurite, container, "rcwdl"), "?" + signature(azurite, container, "rcwdl")):
        store = azure_store(container, key=None, sas_token=token)
        store.connect("")
        store.probe_conditions("t/")
        etag = store.write("t/k.json", b"{}", replaces=None)
        store.write("t/k.json", b"{ }", replaces=etag)
        store.upload(file, "t/f.parquet")
        store.download("t/f.parquet", tmp_path / "copy")
        for key in ("t/k.json", "t/f.parquet"):
            store.delete(key)
        assert list(store.list("")) == []


def test_an_identity_needs_https(azure_store: Make, container: str) -> None:
    with pytest.raises(ConfigError, match=r"HTTPS.*AZURE_ENDPOINT_URL"):
        azure_store(container, key=None).connect("")
