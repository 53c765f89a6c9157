"""Azure Blob Storage, and Azurite, which emulates it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, BinaryIO, cast

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient, ContentSettings

from app.storage.azure.client import LIMITS, Limits, new_client
from app.storage.azure.errors import PROXY_HINT, access_of, error_code, translated
from app.storage.base import StoredObject, content_type
from app.storage.cloud_store import CloudStore, Sink
from app.storage.conditional import WHATEVER_IS_THERE, Replaces, Version, changed
from app.storage.targets import AzureTarget

_NO_OBJECT = "BlobNotFound"
_CHANGED = frozenset({"BlobAlreadyExists", "ConditionNotMet", _NO_OBJECT})
_FOLDER = "hdi_isfolder"  # marks folders among the objects of a hierarchical namespace


class AzureStore(CloudStore):
    def __init__(self, target: AzureTarget, *, max_workers: int, limits: Limits = LIMITS) -> None:
        super().__init__(target.uri, PROXY_HINT)
        self._target = target
        self._max_workers = max_workers
        self._limits = limits
        self._access = access_of(target)
        self._was_authorised = False

    def connect(self, prefix: str) -> None:
        super().connect(prefix)
        self._was_authorised = True

    def _translated(self, doing: str, _key: str, /) -> AbstractContextManager[None]:
        return translated(doing, self._access, was_authorised=self._was_authorised)

    def _pages(self, prefix: str, size: int | None = None) -> Iterator[list[StoredObject]]:
        for page in self._client.list_blobs(
            name_starts_with=prefix, include=["metadata"], results_per_page=size
        ).by_page():
            yield [
                StoredObject(item.name, item.size, item.last_modified)
                for item in page
                if (item.metadata or {}).get(_FOLDER) != "true"
            ]

    def _fetch(self, key: str, into: Sink, start: int = 0, length: int | None = None) -> Version | None:
        try:
            stream = self._client.download_blob(key, offset=None if length is None else start, length=length)
        except ResourceNotFoundError as error:
            if error_code(error) != _NO_OBJECT:
                raise
            return None
        stream.readinto(cast("BinaryIO", into))
        return Version(stream.properties.etag, stream.properties.last_modified)

    def _send(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        """Stores an object with checksums for the service to verify, in blocks where it is large."""
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
                raise changed(self.uri, key) from None
            raise
        return Version(str(answer["etag"]), answer["last_modified"])

    def _remove(self, key: str) -> None:
        try:
            self._client.delete_blob(key)
        except ResourceNotFoundError as error:
            if error_code(error) != _NO_OBJECT:
                raise

    @cached_property
    def _client(self) -> ContainerClient:
        return new_client(self._target, self._max_workers, self._limits)

    @property
    def _account(self) -> str:
        return f" (storage account {self._client.account_name or self._client.primary_hostname})"


def _condition(replaces: Replaces) -> dict[str, Any]:
    """Returns the condition as the library takes it."""
    if replaces is WHATEVER_IS_THERE:
        return {"overwrite": True}
    if replaces is None:
        return {"overwrite": False}
    return {"overwrite": True, "etag": replaces, "match_condition": MatchConditions.IfNotModified}
