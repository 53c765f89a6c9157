"""Address and credentials of each kind of store. Imports no SDK, because settings are read first."""

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class S3Target:
    """A bucket on AWS, or with ``endpoint_url`` on another S3 store. ``may_create``: create a missing bucket.

    Without ``access_key`` and ``secret_key``, boto3 uses its default chain (environment, files, role). With
    ``role_arn``, this login only assumes the role, in sessions with the name ``role_session``.
    """

    bucket: str
    region: str
    endpoint_url: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    may_create: bool = False
    role_arn: str | None = None
    role_external_id: str | None = None
    role_session: str = "quix-ts-datalake-sink"

    @property
    def uri(self) -> str:
        """``s3://bucket`` on any endpoint: readers and the catalog expect it of every S3-compatible store."""
        return f"s3://{self.bucket}"


@dataclass(frozen=True, slots=True)
class GcsTarget:
    """A bucket of Google Cloud Storage.

    ``credentials_json`` is the text of a service account's key; without it, Google's libraries use their default chain
    (a file, workload identity, the machine's own service account).
    """

    bucket: str
    credentials_json: str | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        return f"gs://{self.bucket}"


@dataclass(frozen=True, slots=True)
class AzureTarget:
    """A container of Azure Blob Storage.

    ``account`` is not needed if ``endpoint_url`` (the blob service, if not ``<account>.blob.core.windows.net``) or
    ``connection_string`` contains it. Without ``key`` and ``sas_token``, an identity of this machine is used.
    """

    container: str
    account: str | None = None
    endpoint_url: str | None = None
    connection_string: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        """``az://container``; readers know the account from their own settings."""
        return f"az://{self.container}"

    @property
    def dfs_uri(self) -> str:
        """``abfss://container@account.dfs.core.windows.net``, as in Iceberg's metadata; ``uri`` if it is unknown."""
        named = re.search(r"AccountName=([^;]+)", self.connection_string or "")
        account = self.account or (named[1] if named else None)
        return f"abfss://{self.container}@{account}.dfs.core.windows.net" if account else self.uri


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A folder of this machine, created if missing."""

    folder: Path

    @property
    def uri(self) -> str:
        """``file:///folder``, not percent-encoded, as readers expect it."""
        return f"file://{self.folder}"


StorageTarget = S3Target | GcsTarget | AzureTarget | LocalTarget
