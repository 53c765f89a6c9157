"""Where the store is, read from the variable that Quix Cloud sets."""

import json
import os
from dataclasses import dataclass
from enum import StrEnum


class BlobStorageProvider(StrEnum):
    """All names that the dependency's sink compares with; a store of the last kind is the only one there is here."""

    S3 = "S3"
    MINIO = "Minio"
    S3_COMPATIBLE = "S3Compatible"
    GCP = "Gcp"
    AZURE = "Azure"
    LOCAL = "Local"


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A folder. Its own name is taken for the bucket's."""

    directory_path: str


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """What the platform tells of its blob storage."""

    provider: BlobStorageProvider
    local_storage: LocalStorage


def load_config_from_env() -> StorageConfig:
    """Read ``Quix__BlobStorage__Connection__Json``."""
    told = json.loads(os.environ["Quix__BlobStorage__Connection__Json"])  # noqa: SIM112 - the platform's name
    return StorageConfig(BlobStorageProvider(told["Provider"]), LocalStorage(told["LocalStorage"]["DirectoryPath"]))
