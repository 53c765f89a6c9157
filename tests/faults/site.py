"""A bucket and a catalog, each behind a proxy that makes its faults."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.storage.base import ObjectStore
from app.storage.s3.client import LIMITS, Limits
from app.storage.s3.store import S3Store
from dev.minio import LocalMinio
from tests.e2e.lake import Lake, mirror
from tests.e2e.scenario import s3_store
from tests.fakes.catalog_server import CatalogServer
from tests.faults.proxy import FaultProxy

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class Site:
    """``store`` and ``settings`` lead through the proxies, ``client`` and ``direct_settings`` past them."""

    minio: LocalMinio
    client: "S3Client"
    bucket: str
    catalog: CatalogServer
    to_store: FaultProxy
    to_catalog: FaultProxy
    store: ObjectStore

    @property
    def settings(self) -> dict[str, str]:
        return {**self.direct_settings, "AWS_ENDPOINT_URL": self.to_store.url, "CATALOG_URL": self.to_catalog.url}

    @property
    def direct_settings(self) -> dict[str, str]:
        catalog = {"CATALOG_URL": self.catalog.url, "CATALOG_AUTH_TOKEN": self.catalog.token}
        return {**s3_store(self.minio, self.bucket), **catalog}

    def new_store(self, *, max_workers: int = 4, limits: Limits = LIMITS, **changed: Any) -> S3Store:
        """Another store through the proxy; ``changed`` replaces fields of its target."""
        target = replace(self.minio.target(self.bucket), endpoint_url=self.to_store.url)
        return S3Store(replace(target, **changed), max_workers=max_workers, limits=limits)

    def copy_of(self, table: str, folder: Path) -> Lake:
        """Copy a table into a folder; the catalog must have exactly its files."""
        root = f"data/{table}"
        lake = mirror(self.minio, self.bucket, folder, f"{root}/")
        stored = {f"s3://{self.bucket}/{root}/{path.relative_to(folder)}" for path in lake.files()}
        assert {file["file_path"] for file in self.catalog.files(table)} == stored
        return lake

    def clear(self) -> None:
        self.to_store.clear()
        self.to_catalog.clear()
