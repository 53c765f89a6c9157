"""Which store and which catalog the connector talks to, as plain values.

``STORAGE_URL`` and the platform's ``Quix__BlobStorage__Connection__Json`` are read here. No message of this module
repeats what it read: both may hold secrets.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from app import setting_values as parse

DEFAULT_REGION: Final = "us-east-1"

_LATER_PROVIDERS = {"azure", "azureblobstorage", "gcp", "gcs", "google"}
_PROVIDERS = "S3, Minio, S3Compatible or Local"
_T = TypeVar("_T")


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


StorageTarget = S3Target | LocalTarget


@dataclass(frozen=True, slots=True)
class CatalogTarget:
    """A REST catalog; ``token`` is the bearer token, if there is one."""

    url: str
    token: str | None = field(repr=False)


def parse_storage_url(text: str) -> str | Path:
    """Read ``STORAGE_URL``: the bucket's name of ``s3://bucket``, or the folder of ``file:///folder``.

    Raises:
        ValueError: any other form.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in {"s3", "file"}:
        raise ValueError("must be s3://bucket or file:///folder; other stores are not supported by this version")
    if scheme.lower() == "file":
        return _local_folder(unquote(rest))
    bucket, _, path = rest.partition("/")
    if path.strip("/"):
        raise ValueError("must be s3://bucket alone; the path behind it goes into S3_PREFIX")
    return parse.bucket(bucket)


def _local_folder(path: str) -> Path:
    folder = Path(path)
    if not folder.is_absolute() or folder == Path("/") or ".." in folder.parts or "\0" in path:
        raise ValueError("must name a folder by its full path, such as /lake, which is file:///lake as an address")
    return folder


def parse_connection(text: str, *, default_region: str = DEFAULT_REGION) -> StorageTarget:
    """Read the platform's connection; keys may be in Pascal or snake case, the provider in any case.

    Args:
        text: the JSON document.
        default_region: for a connection that names none.

    Raises:
        ValueError: not JSON, a missing field (named in the message), or a provider of a later version.
    """
    document = _by_plain_name(_load(text))
    provider = _plain(str(document.get("provider")))
    if provider == "local":
        return LocalTarget(_Section(document, "LocalStorage").text("DirectoryPath", _local_folder))
    if provider in {"s3", "minio", "s3compatible"}:
        return _s3_target(_Section(document, "S3Compatible"), on_aws=provider == "s3", default_region=default_region)
    if provider in _LATER_PROVIDERS:
        raise ValueError(f"names a provider that is not supported by this version; supported are {_PROVIDERS}")
    raise ValueError(f"must have a field Provider that is {_PROVIDERS}")


def _load(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("must be a JSON object, and it is no JSON") from None  # the cause would show its content
    if isinstance(document, dict):
        return document
    raise ValueError("must be a JSON object, and it is another kind of value")


def _s3_target(section: "_Section", *, on_aws: bool, default_region: str) -> S3Target:
    # Without its address the keys of another store would go to AWS.
    section.require("BucketName", "AccessKeyId", "SecretAccessKey", *([] if on_aws else ["ServiceUrl"]))
    return S3Target(
        bucket=section.text("BucketName", parse.bucket),
        region=section.text("Region", parse.other_region) if section.has("Region") else default_region,
        endpoint_url=section.text("ServiceUrl", parse.http_url) if section.has("ServiceUrl") else None,
        access_key=section.text("AccessKeyId", str),
        secret_key=section.text("SecretAccessKey", str),
        session_token=None,
        may_create=False,
    )


class _Section:
    """One object of the connection, read by the names that the platform documents."""

    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        self._name = name
        self._values = _by_plain_name(_object(document, name))

    def has(self, field_name: str) -> bool:
        return self._values.get(_plain(field_name)) not in (None, "")

    def require(self, *field_names: str) -> None:
        missing = [f"{self._name}.{field_name}" for field_name in field_names if not self.has(field_name)]
        if missing:
            raise ValueError(f"must have {' and '.join(missing)}")

    def text(self, field_name: str, parser: Callable[[str], _T]) -> _T:
        self.require(field_name)
        try:
            return parser(str(self._values[_plain(field_name)]))
        except ValueError as error:
            raise ValueError(f"has a wrong {self._name}.{field_name}: it {error}") from None


def _object(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    values = document.get(_plain(name))
    if isinstance(values, dict):
        return values
    raise ValueError(f"must have an object {name}")


def _by_plain_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_plain(key): value for key, value in values.items()}


def _plain(key: str) -> str:
    return re.sub(r"[_-]", "", key).lower()
