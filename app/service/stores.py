"""Builds the store that the settings name."""

from app.config.settings import Settings
from app.storage.base import ObjectStore
from app.storage.local.store import LocalStore
from app.storage.targets import AzureTarget, GcsTarget, LocalTarget, S3Target


def new_store(settings: Settings) -> ObjectStore:
    """The store, not connected yet. Loads only its own SDK: each takes a good part of a second."""
    workers = 2 * settings.max_write_workers  # uploads, and the journal beside them
    match settings.storage:
        case LocalTarget() as target:
            return LocalStore(target.folder)
        case S3Target() as target:
            from app.storage.s3.store import S3Store

            return S3Store(target, sse=settings.s3_sse, sse_kms_key_id=settings.s3_sse_kms_key_id, max_workers=workers)
        case GcsTarget() as target:
            from app.storage.gcs.store import GcsStore

            return GcsStore(target, max_workers=workers)
        case AzureTarget() as target:
            from app.storage.azure.store import AzureStore

            return AzureStore(target, max_workers=workers)
