"""The same store twice: a bucket on a real S3 server, and a folder."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.storage.base import ObjectStore
from app.storage.local import LocalStore
from app.storage.s3 import S3Store
from dev.minio import LocalMinio
from tests.integration.storage.place import Place

WORKERS = 10


@pytest.fixture
def s3_store(s3_server: LocalMinio) -> Callable[..., S3Store]:
    """Make a store for a bucket of the server; keyword arguments replace those of the server."""

    def make(bucket: str, **changed: object) -> S3Store:
        arguments: dict[str, object] = {
            "region": s3_server.region,
            "endpoint_url": s3_server.endpoint_url,
            "access_key": s3_server.access_key,
            "secret_key": s3_server.secret_key,
            "max_workers": WORKERS,
            "create_bucket": False,
        }
        return S3Store(bucket, **(arguments | changed))  # type: ignore[arg-type]

    return make


@pytest.fixture(params=["s3", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        folder = tmp_path / "lake"
        folder.mkdir()
        return Place(LocalStore(folder), lambda key: (folder / key).read_bytes(), lambda: shutil.rmtree(folder))

    bucket: str = request.getfixturevalue("bucket")
    server: LocalMinio = request.getfixturevalue("s3_server")
    client = server.client()
    make: Callable[..., ObjectStore] = request.getfixturevalue("s3_store")
    return Place(
        make(bucket),
        lambda key: client.get_object(Bucket=bucket, Key=key)["Body"].read(),
        lambda: client.delete_bucket(Bucket=bucket) and None,
    )
