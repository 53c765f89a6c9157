"""Parses ``STORAGE_URL``: which kind of store, and which bucket, container or folder."""

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote

from app.config import parsers as parse

_FORMS: Final = "must be s3://bucket, gs://bucket, az://container or file:///folder"


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """The kind of store, and the name of its bucket or container or the folder's path."""

    scheme: Literal["s3", "gs", "az", "file"]
    name: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.name}"


def parse_storage_url(text: str) -> StorageAddress:
    """Parses ``s3://bucket``, ``gs://bucket``, ``az://container`` or ``file:///folder``; else raises ``ValueError``."""
    scheme, _, rest = text.partition("://")
    match scheme.lower():
        case "file":
            return StorageAddress("file", str(parse.local_folder(unquote(rest))))
        case "s3" | "gs" as bucket_scheme:
            return StorageAddress(bucket_scheme, parse.bucket(rest.rstrip("/")))
        case "az":
            return StorageAddress("az", parse.container(rest.rstrip("/")))
    raise ValueError(_FORMS)
