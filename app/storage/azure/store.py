"""Azure Blob Storage, and Azurite, which emulates it."""

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient, ContentSettings

from app.errors import ConfigError
from app.storage.azure.client import LIMITS, Limits, grant_of, new_client
from app.storage.azure.errors import ADDRESS_HINT, NotAzureError, error_code, translated
from app.storage.azure.target import AzureTarget
from app.storage.base import ChangedError, Document, StoredObject, content_type, holds
from app.storage.conditional import WHATEVER_IS_THERE, ConditionalWriter, Replaces, Seen
from app.storage.os_errors import os_translated
from app.storage.probe import own_object

logger = logging.getLogger(__name__)

_NO_CONTAINER = "ContainerNotFound"
_NO_OBJECT = "BlobNotFound"
_CHANGED = frozenset({"BlobAlreadyExists", "ConditionNotMet", _NO_OBJECT})
_FOLDER = "hdi_isfolder"  # how an account with a hierarchical namespace lists its folders among the objects


class AzureStore:
    """One container.

    Args:
        target: the container, and the access to it.
        max_workers: how many threads will upload at once; sizes the connection pool.
        limits: time-outs.
    """

    def __init__(self, target: AzureTarget, *, max_workers: int, limits: Limits = LIMITS) -> None:
        self._target = target
        self._max_workers = max_workers
        self._limits = limits
        self._grant = grant_of(target)
        self._was_authorised = False
        self._documents: ConditionalWriter[bytes, str] = ConditionalWriter(self.uri, self._put, self._look)
        self._files = ConditionalWriter(self.uri, self._put_file, self._look_at_file)

    @property
    def uri(self) -> str:
        """``az://container``."""
        return self._target.uri

    def connect(self, prefix: str) -> None:
        """Prove that the container is there and can be listed below the prefix; create it when missing and allowed."""
        doing = self._doing("connecting to")
        with self._asking(doing):
            try:
                self._list_one(prefix)
            except NotAzureError:
                hint = "Set AZURE_ENDPOINT_URL to the address of a blob service"
                raise ConfigError(doing, "the answer is not that of Azure Blob Storage", hint) from None
            except ResourceNotFoundError as error:
                if error_code(error) != _NO_CONTAINER:
                    raise
                if not self._target.may_create:
                    hint = f"Check STORAGE_URL; create the container, or set CREATE_BUCKET=true. {ADDRESS_HINT}"
                    raise ConfigError(doing, "there is no such container", hint) from None
                self._create_container()
                self._list_one(prefix)
        self._was_authorised = True

    def probe_conditions(self, prefix: str) -> None:
        """Try conditional writes on an object of our own, and delete it again: rights to write are missed here."""
        with own_object(prefix, self.delete) as key:
            self._files.rely_on_conditions(self._documents.probe(key, b"{}", b'{"second": true}'))

    @property
    def refuses_overwrites(self) -> bool:
        """Whether the service knows conditional writes; Azure does."""
        return self._files.has_conditions

    def upload(self, path: Path, key: str) -> StoredObject:
        """Put the file under ``key``, where nothing is; no block of a large one is seen before all are there."""
        return self._files.create(key, path)

    def overwrite(self, key: str, body: bytes) -> None:
        """Put a small object in place of whatever is there."""
        self._put(key, body, WHATEVER_IS_THERE)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects under ``prefix`` in the order of their keys, 5,000 per request."""
        pages = self._client.list_blobs(name_starts_with=prefix, include=["metadata"]).by_page()
        while True:
            with self._asking(self._doing("listing", prefix)):
                page = next(pages, None)
            if page is None:
                return
            for item in page:
                if (item.metadata or {}).get(_FOLDER) != "true":
                    yield StoredObject(item.name, item.size, item.last_modified)

    def read(self, key: str) -> Document | None:
        """Read a small object, or ``None`` when there is none."""
        with self._asking(self._doing("reading", key)):
            try:
                stream = self._client.download_blob(key)
                return Document(stream.readall(), stream.properties.etag)
            except ResourceNotFoundError as error:
                if error_code(error) != _NO_OBJECT:
                    raise
                return None

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to ``length`` bytes from ``start`` on; fewer, or none, where the object ends."""
        if not length:  # a range of no bytes cannot be asked for
            return b""
        with self._asking(self._doing("reading", key)):
            try:
                return self._client.download_blob(key, offset=start, length=length).readall()
            except HttpResponseError as error:
                if error.status_code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise
                return b""

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Store a small object in place of the version ``replaces``; a lost answer is found out by reading."""
        return self._documents.write(key, body, replaces)

    def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
        """Put the file in place of the version ``replaces``; a lost answer is found out by reading."""
        return self._files.write(key, path, replaces)

    def download(self, key: str, path: Path) -> str:
        """Copy the object into a local file; nothing is left of one that does not arrive whole."""
        doing = self._doing("downloading", key)
        with os_translated(doing), self._asking(doing):
            stream = self._client.download_blob(key)
            try:
                with path.open("wb") as file:
                    for chunk in stream.chunks():
                        file.write(chunk)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            return stream.properties.etag

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there counts as deleted."""
        with self._asking(self._doing("deleting", key)):
            try:
                self._client.delete_blob(key)
            except ResourceNotFoundError as error:
                if error_code(error) != _NO_OBJECT:
                    raise

    def _put(self, key: str, body: bytes, replaces: Replaces) -> str:
        """Put a small object and return its ETag."""
        return str(self._send(self._doing("writing", key), key, body, len(body), replaces)["etag"])

    def _look(self, key: str, body: bytes) -> Seen[str] | None:
        found = self.read(key)
        return Seen(found.etag, found.body == body, found.etag) if found else None

    def _put_file(self, key: str, path: Path, replaces: Replaces) -> StoredObject:
        doing = self._doing("uploading", key)
        with os_translated(doing), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return StoredObject(key, size, self._send(doing, key, file, size, replaces)["last_modified"])

    def _look_at_file(self, key: str, path: Path) -> Seen[StoredObject] | None:
        doing = self._doing("reading", key)
        with os_translated(doing), self._asking(doing):
            try:
                stream = self._client.download_blob(key)
            except ResourceNotFoundError as error:
                if error_code(error) != _NO_OBJECT:
                    raise
                return None
            found = stream.properties
            stored = StoredObject(key, found.size, found.last_modified)
            return Seen(found.etag, holds(path, stream.chunks()), stored)

    def _send(self, doing: str, key: str, body: bytes | BinaryIO, size: int, replaces: Replaces) -> dict[str, Any]:
        """Put an object in place of that version, with a checksum for the service to hold against what arrives."""
        with self._asking(doing):
            try:
                answer = self._client.get_blob_client(key).upload_blob(
                    body,
                    length=size,
                    content_settings=ContentSettings(content_type=content_type(key)),
                    validate_content=True,
                    **_condition(replaces),
                )
            except HttpResponseError as error:
                if replaces is not WHATEVER_IS_THERE and error_code(error) in _CHANGED:
                    raise ChangedError(f"{self.uri}/{key} is not the version that was to be replaced") from None
                raise
        return answer

    @cached_property
    def _client(self) -> ContainerClient:
        return new_client(self._target, self._max_workers, self._limits, f"connecting to {self.uri}")

    def _doing(self, what: str, key: str = "") -> str:
        """What is being done, to which object, in which account."""
        account = self._client.account_name or self._client.primary_hostname
        return f"{what} {self.uri}{f'/{key}' if key else ''} (storage account {account})"

    def _asking(self, doing: str) -> AbstractContextManager[None]:
        return translated(doing, self._grant, was_authorised=self._was_authorised)

    def _list_one(self, prefix: str) -> None:
        next(self._client.list_blobs(name_starts_with=prefix, results_per_page=1).by_page(), None)

    def _create_container(self) -> None:
        with self._asking(self._doing("creating the container")):
            try:
                self._client.create_container()
            except ResourceExistsError as error:
                if error_code(error) != "ContainerAlreadyExists":
                    raise
                return  # another replica was quicker
        logger.info("Created the container %s", self.uri)


def _condition(replaces: Replaces) -> dict[str, Any]:
    """The condition as the library takes it."""
    if replaces is WHATEVER_IS_THERE:
        return {"overwrite": True}
    if replaces is None:
        return {"overwrite": False}
    return {"overwrite": True, "etag": replaces, "match_condition": MatchConditions.IfNotModified}
