"""The store and the catalog that the connector talks to, as plain values; ``Settings`` chooses among them."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class S3Target:
    """A bucket on AWS (``endpoint_url`` is ``None``) or on another S3 store.

    Without ``access_key`` the SDK looks for credentials itself (role, profile, instance).
    ``may_create``: a missing bucket may be created.
    """

    bucket: str
    region: str
    endpoint_url: str | None
    access_key: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
    session_token: str | None = field(repr=False)
    may_create: bool

    @property
    def uri(self) -> str:
        """The store's address without a trailing slash."""
        return f"s3://{self.bucket}"


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A folder of this machine; a missing one is created."""

    folder: Path

    @property
    def uri(self) -> str:
        """The store's address without a trailing slash, as readers take it: not percent-encoded."""
        return f"file://{self.folder}"


@dataclass(frozen=True, slots=True)
class GcsTarget:
    """A bucket of Google Cloud Storage.

    ``credentials_json`` is the content of a credentials file; without it the SDK looks for some itself (the file of
    ``GOOGLE_APPLICATION_CREDENTIALS``, the machine's service account). ``may_create``: a missing bucket may be created.
    """

    bucket: str
    credentials_json: str | None = field(repr=False)
    may_create: bool

    @property
    def uri(self) -> str:
        """The store's address without a trailing slash."""
        return f"gs://{self.bucket}"


@dataclass(frozen=True, slots=True)
class AzureTarget:
    """A container of Azure Blob Storage.

    Either ``connection_string`` has the address and the credentials, or ``account`` (at ``endpoint_url``, where that is
    not Azure's own) with ``key`` or ``sas_token``. With neither of them the SDK looks for the machine's identity.
    ``may_create``: a missing container may be created.
    """

    container: str
    account: str | None
    endpoint_url: str | None
    connection_string: str | None = field(repr=False)
    key: str | None = field(repr=False)
    sas_token: str | None = field(repr=False)
    may_create: bool

    @property
    def uri(self) -> str:
        """The store's address without a trailing slash."""
        return f"az://{self.container}"


StorageTarget = S3Target | GcsTarget | AzureTarget | LocalTarget


@dataclass(frozen=True, slots=True)
class CatalogTarget:
    """A REST catalog; ``token`` is the bearer token, if there is one."""

    url: str
    token: str | None = field(repr=False)
