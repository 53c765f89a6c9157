"""From settings to the store that they name."""

from dataclasses import replace

from app.config.settings import Settings
from app.config.targets import AzureTarget, GcsTarget, LocalTarget, S3Target
from app.storage.base import ObjectStore
from app.storage.local.store import LocalStore


def new_store(settings: Settings, *, may_create: bool = True) -> ObjectStore:
    """The store, not connected yet. Only its own SDK is loaded: each of them costs a good part of a second.

    ``may_create=False`` leaves a missing bucket missing, also where the settings allow to create it.
    """
    workers = 2 * settings.max_write_workers  # uploads, and journals beside them
    target = settings.storage
    if isinstance(target, LocalTarget):
        return LocalStore(target.folder)
    match replace(target, may_create=target.may_create and may_create):
        case S3Target() as target:
            return _s3_store(target, settings, workers)
        case GcsTarget() as target:
            return _gcs_store(target, workers)
        case AzureTarget() as target:
            return _azure_store(target, workers)


def _s3_store(target: S3Target, settings: Settings, workers: int) -> ObjectStore:
    from app.storage.s3.store import S3Store

    return S3Store(
        target.bucket,
        region=target.region,
        endpoint_url=target.endpoint_url,
        access_key=target.access_key,
        secret_key=target.secret_key,
        session_token=target.session_token,
        sse=settings.s3_sse,
        sse_kms_key_id=settings.s3_sse_kms_key_id,
        max_workers=workers,
        create_bucket=target.may_create,
    )


def _gcs_store(target: GcsTarget, workers: int) -> ObjectStore:
    from app.storage.gcs.store import GcsStore

    return GcsStore(
        target.bucket,
        credentials_json=target.credentials_json,
        max_workers=workers,
        create_bucket=target.may_create,
    )


def _azure_store(target: AzureTarget, workers: int) -> ObjectStore:
    from app.storage.azure.store import AzureStore

    return AzureStore(
        target.container,
        account=target.account,
        endpoint_url=target.endpoint_url,
        connection_string=target.connection_string,
        key=target.key,
        sas_token=target.sas_token,
        max_workers=workers,
        create_container=target.may_create,
    )
