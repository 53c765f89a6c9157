"""Settings from nothing but the variables a test names."""

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from app.config.environment import SettingsError, load_settings
from app.config.settings import Settings

ENOUGH = {"S3_BUCKET": "lake", "KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}
BROKER_ALONE = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}
CONNECTION = "Quix__BlobStorage__Connection__Json"
CREDENTIALS = '{"type": "service_account", "private_key": "hush"}'
PLATFORM_BUCKET = {
    "BucketName": "quix-lake",
    "AccessKeyId": "platform-key",
    "SecretAccessKey": "platform-secret",
    "Region": "eu-west-1",
    "ServiceUrl": "https://gateway.example.com",
}


def connection(provider: str = "S3Compatible", **sections: Any) -> str:
    return json.dumps({"Provider": provider, **(sections or {"S3Compatible": PLATFORM_BUCKET})})


ON_PLATFORM = {
    CONNECTION: connection(),
    "Quix__Workspace__Id": "acme-prod",
    "Quix__Sdk__Token": "sdk-token",
    "Quix__Portal__Api": "https://portal.example.com",
}


def load(*bases: dict[str, str], **variables: str) -> Settings:
    """Load settings from these variables alone; without a base, from ``ENOUGH`` and these."""
    base = bases[0] if bases else ENOUGH
    with patch.dict(os.environ, {**base, **variables}, clear=True):
        return load_settings()


def problems(*bases: dict[str, str], **variables: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(*bases, **variables)
    return caught.value.problems


def local_settings(lake: Path, **variables: str) -> Settings:
    base = {"STORAGE_URL": f"file://{lake}", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}
    return load(base, **variables)
