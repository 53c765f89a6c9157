"""Makes what writes with Spark from the settings, for the connector and for the commands that write."""

from collections.abc import Mapping
from pathlib import Path

from app.config.settings import Settings
from app.errors import ConfigError
from app.spark.writer import SparkWriter
from app.storage.targets import AzureTarget, GcsTarget, LocalTarget, S3Target


def new_spark_writer(settings: Settings, scratch: Path) -> SparkWriter:
    """A writer that is not started yet, with this private folder.

    Raises:
        ConfigError: SPARK_MASTER names a cluster.
    """
    if not runs_locally(settings):
        raise ConfigError(
            f"starting Spark with SPARK_MASTER={settings.spark_master}",
            "batches are written by a Spark in the connector's own process",
            "Take SPARK_MASTER out; a cluster is for the commands compact and erase",
        )
    return SparkWriter(
        master=settings.spark_master,
        driver_memory=f"{settings.memory.heap_mb}m",
        scratch=scratch,
        compression=settings.parquet_compression,
        row_group_rows=settings.row_group_rows,
    )


def runs_locally(settings: Settings) -> bool:
    """Whether Spark is in this process, and not on a cluster."""
    return settings.spark_master.startswith("local")


def uri_for_executors(settings: Settings) -> str:
    """The store's address for Hadoop's file systems."""
    match settings.storage:
        case S3Target() as target:
            return f"s3a://{target.bucket}"
        case AzureTarget() as target:
            return target.dfs_uri
        case GcsTarget() | LocalTarget() as target:
            return target.uri


def access_of_executors(settings: Settings) -> Mapping[str, str]:
    """Settings of Hadoop's file systems by which executors reach the store.

    For S3 it is all that we know. Google's and Azure's file systems, and S3 without fixed keys, use the identity of the
    cluster's machines, or what the cluster is configured with.
    """
    target = settings.storage
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
