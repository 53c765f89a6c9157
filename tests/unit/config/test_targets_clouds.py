"""Google Cloud Storage and Azure, as the settings and the platform's connection lead to them."""

import json
from typing import Any

import pytest

from app.storage.targets import AzureTarget, GcsTarget, S3Target
from tests.support.environment import BROKER_ALONE, CONNECTION, CREDENTIALS, ON_PLATFORM, load, problems

AZURE = {**BROKER_ALONE, "STORAGE_URL": "az://lake"}
STRING = "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=aHVzaA==;EndpointSuffix=core.windows.net"


def azure(**fields: Any) -> AzureTarget:
    unset = dict.fromkeys(("account", "endpoint_url", "connection_string", "key", "sas_token"))
    return AzureTarget(**{"container": "lake", **unset, **fields})


def on_platform(section: dict[str, Any], provider: str = "Azure", name: str = "AzureBlobStorage") -> dict[str, str]:
    return {CONNECTION: json.dumps({"Provider": provider, name: section})}


class TestGoogle:
    def test_a_bucket(self) -> None:
        settings = load(BROKER_ALONE, STORAGE_URL="GS://lake/")
        assert settings.storage == GcsTarget("lake", None)
        assert (settings.storage.uri, settings.root) == ("gs://lake", "data")

    def test_credentials(self) -> None:
        storage = load(BROKER_ALONE, STORAGE_URL="gs://lake", GCS_CREDENTIALS_JSON=CREDENTIALS).storage
        assert storage == GcsTarget("lake", CREDENTIALS)
        assert "hush" not in repr(storage)

    def test_keys_of_other_stores_do_not_matter(self) -> None:
        others = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AZURE_STORAGE_KEY": "k"}
        assert isinstance(load(BROKER_ALONE, STORAGE_URL="gs://lake", **others).storage, GcsTarget)
        assert isinstance(load(GCS_CREDENTIALS_JSON="no JSON", AZURE_STORAGE_KEY="k").storage, S3Target)


class TestAzure:
    @pytest.mark.parametrize(
        ("variables", "target"),
        [
            ({"AZURE_STORAGE_CONNECTION_STRING": STRING}, azure(connection_string=STRING)),
            ({"AZURE_STORAGE_ACCOUNT": "acme"}, azure(account="acme")),
            ({"AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_KEY": "aHVzaA=="}, azure(account="acme", key="aHVzaA==")),
            (
                {"AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_SAS_TOKEN": "?sig=hush"},
                azure(account="acme", sas_token="?sig=hush"),
            ),
            (
                {"AZURE_STORAGE_ACCOUNT": "acme", "AZURE_ENDPOINT_URL": "http://127.0.0.1:10000/acme/"},
                azure(account="acme", endpoint_url="http://127.0.0.1:10000/acme"),
            ),
        ],
    )
    def test_ways_in(self, variables: dict[str, str], target: AzureTarget) -> None:
        settings = load(AZURE, **variables)
        assert settings.storage == target
        assert (settings.storage.uri, settings.root) == ("az://lake", "data")
        assert not any(secret in repr(settings.storage) for secret in ("hush", "aHVzaA"))


class TestPlatform:
    @pytest.mark.parametrize(
        ("section", "target"),
        [
            ({"AccountName": "acme", "Key": "aHVzaA=="}, azure(account="acme", key="aHVzaA==")),
            ({"AccountName": "acme", "AccountKey": "aHVzaA=="}, azure(account="acme", key="aHVzaA==")),
            ({"accountName": "acme", "key": STRING}, azure(connection_string=STRING)),
            ({"ConnectionString": STRING}, azure(connection_string=STRING)),
            ({"AccountName": "acme", "SasToken": "sig"}, azure(account="acme", sas_token="sig")),
            (
                {"AccountName": "acme", "ServiceUrl": "https://acme.example.com/"},
                azure(account="acme", endpoint_url="https://acme.example.com"),
            ),
        ],
    )
    def test_azure(self, section: dict[str, str], target: AzureTarget) -> None:
        settings = load(ON_PLATFORM, **on_platform({"ContainerName": "lake", **section}))
        assert settings.storage == target
        assert settings.root == "acme-prod/data-lake/time-series"

    @pytest.mark.parametrize(
        ("section", "reason"),
        [
            ({"ContainerName": "lake", "Key": "aHVzaA=="}, "must have AzureBlobStorage.AccountName"),
            ({"AccountName": "acme", "Key": "aHVzaA=="}, "must have AzureBlobStorage.ContainerName"),
            ({"ContainerName": "lake", "AccountName": "hush/"}, "has a wrong AzureBlobStorage.AccountName"),
        ],
    )
    def test_azure_refused(self, section: dict[str, str], reason: str) -> None:
        (problem,) = problems(ON_PLATFORM, **on_platform(section))
        assert reason in problem
        assert "hush" not in problem
