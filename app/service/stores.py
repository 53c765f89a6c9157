"""Builds the store that the settings name; says how executors on a cluster reach it."""

from collections.abc import Callable, Mapping
from pkgutil import resolve_name

from app.config.settings import Settings
from app.parts import STORES
from app.storage.base import ObjectStore
from app.storage.local.store import LocalStore
from app.storage.targets import AzureTarget, LocalTarget, S3Target, StorageTarget


def new_store(settings: Settings) -> ObjectStore:
    """The store, not connected yet. Loads only its own SDK: each takes a good part of a second."""
    workers = (4 if settings.has_tables else 2) * settings.max_write_workers  # uploads, and journals beside them
    match settings.storage:
        case LocalTarget() as target:
            return LocalStore(target.folder)
        case S3Target() as target:
            from app.storage.s3.store import S3Store

            return S3Store(target, sse=settings.s3_sse, sse_kms_key_id=settings.s3_sse_kms_key_id, max_workers=workers)
        case target:
            new: Callable[..., ObjectStore] = resolve_name(STORES[target.uri.partition("://")[0]])
            return new(target, max_workers=workers)


def uri_for_executors(target: StorageTarget) -> str:
    if isinstance(target, S3Target):
        return f"s3a://{target.bucket}"
    return target.dfs_uri if isinstance(target, AzureTarget) else target.uri


def access_of_executors(target: StorageTarget) -> Mapping[str, str]:
    """Settings of Hadoop's file systems by which executors reach the store.

    For S3 it is all that we know. Google's and Azure's file systems, and S3 without fixed keys, use the identity of the
    cluster's machines, or what the cluster is configured with.
    """
    if not isinstance(target, S3Target):
        return {}
    known = {
        "endpoint": target.endpoint_url,
        "path.style.access": "true" if target.endpoint_url else None,
        "endpoint.region": target.region,
        "access.key": target.access_key,
        "secret.key": target.secret_key,
        "session.token": target.session_token,
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in known.items() if value}
