"""Parses the platform's connection to the blob storage: ``Quix__BlobStorage__Connection__Json``.

No error message of this module contains a part of this JSON document, because the document contains secrets.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from app.config import parsers as parse
from app.storage.targets import AzureTarget, LocalTarget, S3Target, StorageTarget

# If the access key is the id of a Quix user, the platform's gateway needs the secret also as session token.
_USER: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_GOOGLE_S3: Final = "https://storage.googleapis.com"  # the S3 interface of Google Cloud Storage


def parse_connection(text: str, default_region: str = "us-east-1") -> StorageTarget:
    """Parse the platform's connection. Field names may be in Pascal, camel or snake case; the provider in any case."""
    document = _by_plain_name(parse.json_object(text))
    match _plain(str(document.get("provider"))):
        case "local":
            return LocalTarget(Path(_Section(document, "LocalStorage").text("DirectoryPath", parse.local_folder)))
        case "s3":
            return _s3_target(_Section(document, "S3Compatible"), default_region)
        case "minio" | "s3compatible":
            # The address is required. Otherwise the access keys of another store would be sent to AWS.
            return _s3_target(_Section(document, "S3Compatible"), default_region, "ServiceUrl")
        case "gcp" | "gcs" | "google" | "googlecloudstorage":
            return _s3_target(_Section(document, "S3Compatible"), default_region, service_url=_GOOGLE_S3)
        case "azure" | "azureblobstorage":
            return _azure_target(_Section(document, "AzureBlobStorage"))
    raise ValueError("must have a field Provider that is S3, Minio, S3Compatible, Gcp, Azure or Local")


def _s3_target(section: "_Section", default_region: str, *required: str, service_url: str | None = None) -> S3Target:
    section.require("BucketName", "AccessKeyId", "SecretAccessKey", *required)
    access_key, secret_key = section.text("AccessKeyId"), section.text("SecretAccessKey")
    return S3Target(
        bucket=section.text("BucketName", parse.bucket),
        region=section.optional("Region", parse.other_region) or default_region,
        endpoint_url=section.optional("ServiceUrl", parse.http_url) or service_url,
        access_key=access_key,
        secret_key=secret_key,
        session_token=secret_key if _USER.fullmatch(access_key) else None,
    )


def _azure_target(section: "_Section") -> AzureTarget:
    """Read the section of Azure. The field for the access key may contain a connection string."""
    key = section.optional("Key") or section.optional("AccountKey")
    connection_string = section.optional("ConnectionString")
    if key and ";" in key:  # a connection string, because base64 has no semicolon
        key, connection_string = None, key
    section.require("ContainerName", *([] if connection_string else ["AccountName"]))
    container = section.text("ContainerName", parse.container)
    if connection_string:
        return AzureTarget(container, connection_string=connection_string)
    return AzureTarget(
        container,
        account=section.text("AccountName", parse.storage_account),
        endpoint_url=section.optional("ServiceUrl", parse.http_url),
        key=key,
        sas_token=None if key else section.optional("SasToken"),
    )


class _Section:
    """An object in the document. Fields are read by the names in the platform's documentation."""

    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        values = document.get(_plain(name))
        if not isinstance(values, dict):
            raise ValueError(f"must have an object {name}")  # noqa: TRY004
        self._name = name
        self._values = {key: value for key, value in _by_plain_name(values).items() if value not in (None, "")}

    def require(self, *field_names: str) -> None:
        missing = [f"{self._name}.{each}" for each in field_names if _plain(each) not in self._values]
        if missing:
            raise ValueError(f"must have {' and '.join(missing)}")

    def optional(self, field_name: str, parser: Callable[[str], str] = str) -> str | None:
        return self.text(field_name, parser) if _plain(field_name) in self._values else None

    def text(self, field_name: str, parser: Callable[[str], str] = str) -> str:
        self.require(field_name)
        try:
            return parser(str(self._values[_plain(field_name)]))
        except ValueError as error:
            raise ValueError(f"has a wrong {self._name}.{field_name}: it {error}") from None


def _by_plain_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_plain(key): value for key, value in values.items()}


def _plain(key: str) -> str:
    return re.sub(r"[_-]", "", key).lower()
