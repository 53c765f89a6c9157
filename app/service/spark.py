"""How executors on a cluster reach the store that the settings name."""

from collections.abc import Mapping

from app.storage.targets import AzureTarget, S3Target, StorageTarget


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
