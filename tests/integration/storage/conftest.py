"""One behaviour, many stores: on real servers, and in a folder.

To add a store, write a fixture ``<name>_place`` and name it in ``CONDITIONAL_STORES``, or in ``STORES`` alone if it
cannot decide between two writers. MinIO and the folder are for every day. The others are marked ``night``, so that
``make test`` neither starts nor fetches their servers.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.parts.azure.store import AzureStore
from app.parts.gcs.store import GcsStore
from app.storage.base import ObjectStore
from app.storage.local.store import LocalStore
from app.storage.s3 import client as s3
from app.storage.s3.client import Limits
from app.storage.s3.store import S3Store
from app.storage.targets import AzureTarget, GcsTarget
from dev.azurite import LocalAzurite
from dev.gcs_server import LocalGcsServer
from dev.minio import LocalMinio
from tests.services.no_conditions import ignoring_conditions, refusing_conditions

_PART = 5 << 20
LARGE = random.Random(7).randbytes(2 * _PART + 100)  # noqa: S311 - two whole parts and a rest
SMALL_PARTS = Limits(part_bytes=_PART, largest_single=_PART)


@dataclass(frozen=True)
class Place:
    """``read`` gives an object's bytes as another reader sees them, ``remove`` takes the bucket or folder away."""

    store: ObjectStore
    read: Callable[[str], bytes]
    remove: Callable[[], None]


def by_night(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.night) for name in names]


CONDITIONAL_STORES = ("s3", "local", *by_night("gcs", "azure"))
STORES = (*CONDITIONAL_STORES, *by_night("s3_refusing_conditions", "s3_ignoring_conditions"))
WORKERS = 10


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "source.parquet"
    path.write_bytes(b"PAR1")
    return path


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture(params=CONDITIONAL_STORES)
def deciding_place(request: pytest.FixtureRequest) -> Place:
    """A store that itself decides between two who write in the same instant."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
def s3_store(s3_server: LocalMinio) -> Callable[..., S3Store]:
    def make(
        bucket: str,
        *,
        limits: s3.Limits = s3.LIMITS,
        sse: Any = None,
        sse_kms_key_id: str | None = None,
        **changed: Any,
    ) -> S3Store:
        target = replace(s3_server.target(bucket), **changed)
        return S3Store(target, sse=sse, sse_kms_key_id=sse_kms_key_id, max_workers=WORKERS, limits=limits)

    return make


@pytest.fixture
def s3_place(s3_store: Callable[..., S3Store], s3_server: LocalMinio, bucket: str) -> Place:
    client = s3_server.client()
    return Place(
        s3_store(bucket),
        lambda key: client.get_object(Bucket=bucket, Key=key)["Body"].read(),
        lambda: client.delete_bucket(Bucket=bucket) and None,
    )


@pytest.fixture
def s3_refusing_conditions_place(
    s3_place: Place, s3_store: Callable[..., S3Store], s3_server: LocalMinio, bucket: str
) -> Iterator[Place]:
    with refusing_conditions(s3_server) as proxy:
        yield replace(s3_place, store=s3_store(bucket, endpoint_url=proxy.url))


@pytest.fixture
def s3_ignoring_conditions_place(
    s3_place: Place, s3_store: Callable[..., S3Store], s3_server: LocalMinio, bucket: str
) -> Iterator[Place]:
    with ignoring_conditions(s3_server) as proxy:
        store = s3_store(bucket, endpoint_url=proxy.url)
        store.probe_conditions("")  # nothing else tells
        yield replace(s3_place, store=store)


@pytest.fixture
def gcs_store(gcs_server: LocalGcsServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., GcsStore]:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server.endpoint_url)

    def make(bucket: str) -> GcsStore:
        return GcsStore(GcsTarget(bucket), max_workers=WORKERS)

    return make


@pytest.fixture
def gcs_place(gcs_store: Callable[..., GcsStore], gcs_server: LocalGcsServer, gcs_bucket: str) -> Place:
    bucket = gcs_server.client().bucket(gcs_bucket)
    return Place(
        gcs_store(gcs_bucket), lambda key: bucket.blob(key).download_as_bytes(), lambda: bucket.delete() and None
    )


@pytest.fixture
def azure_store(azurite: LocalAzurite) -> Callable[..., AzureStore]:
    def make(container: str, **changed: Any) -> AzureStore:
        target = AzureTarget(container, azurite.account, azurite.endpoint_url, key=azurite.key)
        return AzureStore(replace(target, **changed), max_workers=WORKERS)

    return make


@pytest.fixture
def azure_place(azure_store: Callable[..., AzureStore], azurite: LocalAzurite, container: str) -> Place:
    client = azurite.client().get_container_client(container)
    return Place(azure_store(container), lambda key: client.download_blob(key).readall(), client.delete_container)


@pytest.fixture
def local_place(tmp_path: Path) -> Place:
    folder = tmp_path / "lake"
    folder.mkdir()
    return Place(LocalStore(folder), lambda key: (folder / key).read_bytes(), lambda: shutil.rmtree(folder))
