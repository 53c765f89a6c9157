"""Reads an Iceberg catalog's address, login and table from the settings, and refuses settings that don't fit."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from app.config import parsers as parse
from app.config.fields import Contradictions
from app.config.settings import Settings
from app.http_headers import fits_header
from app.storage.targets import AzureTarget

_OF_PYICEBERG = "PYICEBERG_CATALOG__DEFAULT__"  # the prefix of pyiceberg's environment variables


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """A table in an Iceberg catalog.

    Args:
        url: The catalog's address, for messages.
        properties: pyiceberg's settings. The variables ``PYICEBERG_CATALOG__DEFAULT__…`` override these settings.
        address: The store's address in Iceberg's metadata, for example ``s3://bucket``.
        namespace: The table's namespace, with dots between the levels.
        group: The consumer group whose offsets the table stores.
        keep_days: The age in days at which snapshots expire.
        transforms: The computed partitions of a new table. Each has Iceberg's transform, the column's name, and the
            column's type (``None`` if no setting contains the type).
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
    times = {settings.timestamp_as: pa.timestamp("us", "UTC")} if settings.timestamp_as else {}
    types = {**dict.fromkeys(settings.plain_partitions, pa.string()), **settings.column_types, **times}
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


def contradictions(settings: Settings) -> Contradictions:
    if settings.catalog_url is None and not any(name.startswith(_OF_PYICEBERG) for name in os.environ):
        yield "CATALOG_URL", f"must be set with CATALOG_TYPE=iceberg, unless {_OF_PYICEBERG}TYPE names a catalog"
    if settings.catalog_client_id and settings.catalog_auth_token:
        yield "CATALOG_AUTH_TOKEN", "must not be set with CATALOG_CLIENT_ID: one of them is the login"
    if settings.catalog_auth_token and not fits_header(settings.catalog_auth_token):
        yield "CATALOG_AUTH_TOKEN", "must be one word of visible ASCII, as it goes into a header"
    if not settings.auto_discover:
        yield "AUTO_DISCOVER", "must be true with CATALOG_TYPE=iceberg: the catalog is the table"
    if settings.null_partition != "auto":
        yield "NULL_PARTITION", "has no effect with CATALOG_TYPE=iceberg: a missing value is null"
    if any(name.startswith(parse.VIRTUAL_MARK) or "." in name for name in settings.partitions):
        yield "HIVE_COLUMNS", "must have neither ~ nor dots in names with CATALOG_TYPE=iceberg"
    for variable, names in (
        ("TIMESTAMP_COLUMN", (settings.timestamp_column,)),
        ("COLUMN_TYPES", settings.column_types),
    ):
        if any("." in name for name in names):
            yield variable, "must have no dots in names with CATALOG_TYPE=iceberg"
    yield from _contradictions_of_lent_keys(settings)
    for entry in filter(parse.is_odd_transform, settings.partitions):
        yield "HIVE_COLUMNS", f"must have {entry} in a form such as day(at), bucket(16,device) or truncate(3,code)"


def _contradictions_of_lent_keys(settings: Settings) -> Contradictions:
    """Yield settings that need rights outside of the table's folder, where the catalog's keys are not valid."""
    if not settings.catalog_vended_credentials:
        return
    with_keys = "with CATALOG_VENDED_CREDENTIALS, because the keys of the catalog are only valid in the table's folder"
    if settings.uses_platform_storage or not (settings.storage_url or "s3://").startswith("s3://"):
        yield "CATALOG_VENDED_CREDENTIALS", "is only for S3: set S3_BUCKET"
    yield from settings.refuse("must not be set with CATALOG_VENDED_CREDENTIALS", "AWS_ACCESS_KEY_ID", "S3_ROLE_ARN")
    if settings.has_several:
        yield "input", f"must be one topic {with_keys}"
    if settings.on_bad_record == "dead-letter":
        yield "ON_BAD_RECORD", f"must be skip or fail {with_keys}"
    if settings.create_bucket:
        yield "CREATE_BUCKET", f"must be false {with_keys}"
