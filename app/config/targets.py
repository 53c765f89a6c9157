"""The store and the catalog that the connector talks to, as plain values; ``Settings`` chooses among them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.storage.targets import AzureTarget, GcsTarget, LocalTarget, S3Target

StorageTarget = S3Target | GcsTarget | AzureTarget | LocalTarget


@dataclass(frozen=True, slots=True)
class CatalogTarget:
    """A REST catalog; ``token`` is the bearer token, if there is one."""

    url: str
    token: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """An Iceberg catalog; ``properties`` are pyiceberg's, and ``keep_days`` is the age of the oldest snapshot."""

    url: str
    properties: Mapping[str, str] = field(repr=False)
    keep_days: float
