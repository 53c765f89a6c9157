"""Builds the store that the settings name."""

from collections.abc import Callable
from pkgutil import resolve_name

from app.config.settings import Settings
from app.parts import STORES
from app.storage.base import ObjectStore
from app.storage.local.store import LocalStore
from app.storage.targets import LocalTarget, S3Target


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
