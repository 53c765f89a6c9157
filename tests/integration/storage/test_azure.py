"""What only Azure does, on a real server."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from app.errors import ConfigError
from app.parts.azure.store import AzureStore
from dev.azurite import LocalAzurite

pytestmark = pytest.mark.night  # for every day: tests/unit/parts/azure

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
