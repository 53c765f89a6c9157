"""Stands in for the private package that the dependency's sink asks for its store: S3 through s3fs, and no more."""

# mypy: disable-error-code="import-not-found, import-untyped"
from typing import Any

import s3fs
from fsspec.implementations.dirfs import DirFileSystem

from .storage.config import load_config_from_env


def get_filesystem(base_path: str | None = None) -> Any:
    """The bucket of the environment, or a folder of it, as an fsspec file system."""
    bucket = load_config_from_env().s3_compatible
    store = s3fs.S3FileSystem(
        key=bucket.access_key_id,
        secret=bucket.secret_access_key,
        client_kwargs={"endpoint_url": bucket.service_url, "region_name": bucket.region},
    )
    return DirFileSystem(f"{bucket.bucket_name}/{base_path}" if base_path else bucket.bucket_name, store)
