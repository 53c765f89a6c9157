"""Where the store is, read from the variable that Quix Cloud sets."""

import json
import os
from dataclasses import dataclass
from enum import StrEnum


class BlobStorageProvider(StrEnum):
    """The providers that are reached by S3's protocol, under the names that the dependency's sink compares with."""

    S3 = "S3"
    MINIO = "Minio"
    S3_COMPATIBLE = "S3Compatible"
    GCP = "Gcp"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket and how to reach it."""

    bucket_name: str
    access_key_id: str
    secret_access_key: str
    region: str
    service_url: str


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """What the platform tells of its blob storage."""

    provider: BlobStorageProvider
    s3_compatible: Bucket


def load_config_from_env() -> StorageConfig:
    """Read ``Quix__BlobStorage__Connection__Json``."""
    told = json.loads(os.environ["Quix__BlobStorage__Connection__Json"])  # noqa: SIM112 - the platform's name
    bucket = told["S3Compatible"]
    return StorageConfig(
        BlobStorageProvider(told["Provider"]),
        Bucket(
            bucket_name=bucket["BucketName"],
            access_key_id=bucket["AccessKeyId"],
            secret_access_key=bucket["SecretAccessKey"],
            region=bucket["Region"],
            service_url=bucket["ServiceUrl"],
        ),
    )
