"""Address and credentials of each kind of store. The module imports no SDK, because settings are read first."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


def is_aws_address(endpoint_url: str) -> bool:
    """Whether this is one of Amazon's public or private (VPC) addresses."""
    return (urlsplit(endpoint_url).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


@dataclass(frozen=True, slots=True)
class S3Target:
    """A bucket on AWS, or on the S3 store at ``endpoint_url``. ``may_create``: a missing bucket may be created.

    Without ``access_key`` and ``secret_key``, boto3 uses its default chain (environment, files, role). If ``role_arn``
    is set, this login only assumes the role. ``role_session`` is the name of the sessions. Instead, ``lend`` returns
    temporary keys of the catalog, in the form of botocore.
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
    sts_endpoint_url: str | None = None
    lend: Callable[[], Mapping[str, str]] | None = field(default=None, repr=False, compare=False)

    @property
    def uri(self) -> str:
        """``s3://bucket`` for any endpoint, because readers and the catalog expect this address of every S3 store."""
        return f"s3://{self.bucket}"

    @property
    def token_service(self) -> str | None:
        """Address of the service for a role's keys, for other stores than AWS that of the store. ``None``: AWS's."""
        is_aws = self.endpoint_url is None or is_aws_address(self.endpoint_url)
        return self.sts_endpoint_url or (None if is_aws else self.endpoint_url)


@dataclass(frozen=True, slots=True)
class GcsTarget:
    """A bucket of Google Cloud Storage.

    ``credentials_json`` is the text of a service account's key. If it is missing, Google's libraries use their default
    chain (a file, workload identity, the machine's service account).
    """

    bucket: str
    credentials_json: str | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        return f"gs://{self.bucket}"


@dataclass(frozen=True, slots=True)
class AzureTarget:
    """A container of Azure Blob Storage.

    ``account`` is not needed if ``endpoint_url`` or ``connection_string`` contains the account. ``endpoint_url``
    replaces ``<account>.blob.core.windows.net``. Without ``key`` and ``sas_token``, the machine's identity is used.
    """

    container: str
    account: str | None = None
    endpoint_url: str | None = None
    connection_string: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        """``az://container``. Readers find the account in their own settings."""
        return f"az://{self.container}"

    @property
    def dfs_uri(self) -> str:
        """``abfss://container@account.dfs.core.windows.net`` for Iceberg's metadata; ``uri`` without an account."""
        named = re.search(r"AccountName=([^;]+)", self.connection_string or "")
        account = self.account or (named[1] if named else None)
        return f"abfss://{self.container}@{account}.dfs.core.windows.net" if account else self.uri


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A folder of this machine. A missing folder is created."""

    folder: Path

    @property
    def uri(self) -> str:
        """``file:///folder``, without percent-encoding, because readers expect this form."""
        return f"file://{self.folder}"


StorageTarget = S3Target | GcsTarget | AzureTarget | LocalTarget
