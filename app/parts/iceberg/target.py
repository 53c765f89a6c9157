"""Address and login of an Iceberg catalog, and the table in it, by the settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from app.config.settings import Settings
from app.storage.targets import AzureTarget


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """A table in an Iceberg catalog.

    Args:
        url: for messages.
        properties: of the catalog, as pyiceberg names them; its own variables (``PYICEBERG_CATALOG__DEFAULT__…``) win.
        address: of the store in Iceberg's metadata, e.g. ``s3://bucket``.
        namespace: of the table; levels are separated by dots.
        group: whose marks say how far the table is.
        keep_days: older snapshots are expired.
        transforms: partitions of a new table that are no columns: in the words of Iceberg, with the column and its type
            as far as the settings tell it.
    """

    url: str
    properties: Mapping[str, str] = field(repr=False)
    address: str
    namespace: str
    table: str
    group: str
    keep_days: float
    transforms: Sequence[tuple[str, str, pa.DataType | None]] = ()


def new_target(settings: Settings) -> IcebergTarget:
    client_id, store = settings.catalog_client_id, settings.storage
    properties = {
        "uri": settings.catalog_url,
        "token": settings.catalog_auth_token,
        "credential": f"{client_id}:{settings.catalog_client_secret}" if client_id else None,
        "warehouse": settings.catalog_warehouse,
    }
    types = settings.types_at_start
    return IcebergTarget(
        url=settings.catalog_url or "by PYICEBERG_CATALOG__DEFAULT",
        properties={name: value for name, value in properties.items() if value is not None},
        address=store.dfs_uri if isinstance(store, AzureTarget) else store.uri,
        namespace=settings.catalog_namespace,
        table=settings.table,
        group=settings.consumer_group,
        keep_days=settings.snapshot_days,
        transforms=[(words, name, types.get(name)) for words, name in settings.transforms.values()],
    )
