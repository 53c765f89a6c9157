"""The store for Azure Blob Storage, and for the emulator Azurite: the container and the client."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, BinaryIO, cast

import requests
from azure.core import MatchConditions
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.core.pipeline import PipelineResponse
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import ContainerClient, ContentSettings
from requests.adapters import HTTPAdapter

from app.errors import ConfigError
from app.parts.azure.errors import PROXY_HINT, access_of, error_code, translate
from app.storage.base import TIMEOUTS, StoredObject, content_type
from app.storage.cloud_store import CloudStore, Sink, UnexpectedAnswerError
from app.storage.conditional import WHATEVER_IS_THERE, Replaces, Version, changed
from app.storage.targets import AzureTarget

_READ_BYTES = 256 << 10  # number of bytes to read from an answer at a time
_RETRIES = 2  # retries of a request by the library; then the pipeline logs the error and retries
_FIRST_PAUSE = 0.5  # seconds before the first retry; the library's default is 15

# A larger object is sent in blocks of this size in bytes. Readers see the object after the last request, which joins
# the blocks. Each thread has one block in memory.
BLOCK = 8 << 20
_NO_OBJECT = "BlobNotFound"
_CHANGED = frozenset({"BlobAlreadyExists", "ConditionNotMet", _NO_OBJECT})
_FOLDER = "hdi_isfolder"  # the metadata of folders in a hierarchical namespace


class AzureStore(CloudStore):
    def __init__(self, target: AzureTarget, *, max_workers: int, timeouts: tuple[float, float] = TIMEOUTS) -> None:
        super().__init__(target.uri, PROXY_HINT, max_workers)
        self._target = target
        self._timeouts = timeouts
        self._access = access_of(target)

    def _translate(self, error: Exception, doing: str, _key: str, /) -> None:
        if isinstance(error, AzureError):
            translated = translate(error, doing, self._access, was_authorised=self._is_connected)
            raise translated from None  # the library's error may contain a signature
        if isinstance(error, UnicodeDecodeError):  # the library expects UTF-8
            raise UnexpectedAnswerError("the answer does not come from Azure Blob Storage") from error

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
        """Store an object. The service verifies checksums of the content. A large object is sent in blocks."""
        condition: dict[str, Any] = {"overwrite": replaces is not None}
        if isinstance(replaces, str):
            condition |= {"etag": replaces, "match_condition": MatchConditions.IfNotModified}
        try:
            answer = self._client.get_blob_client(key).upload_blob(
                body,
                length=size,
                content_settings=ContentSettings(content_type=content_type(key)),
                validate_content=True,
                **condition,
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
        """Create the client for all threads. ``app.parts.azure.errors`` translates all errors of this function."""
        target, session = self._target, requests.Session()
        adapter = HTTPAdapter(pool_maxsize=self._connections)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        session.auth = lambda request: request  # otherwise a user's .netrc would replace the signature
        options: dict[str, Any] = {
            # Time-outs are set in the transport, because a client with a transport ignores the client's time-outs.
            "transport": RequestsTransport(
                session=session,
                connection_timeout=self._timeouts[0],
                read_timeout=self._timeouts[1],
                connection_data_block_size=_READ_BYTES,
            ),
            "retry_total": _RETRIES,
            "initial_backoff": _FIRST_PAUSE,
            "increment_base": 1,
            "random_jitter_range": _FIRST_PAUSE,
            "max_single_put_size": BLOCK,
            "max_block_size": BLOCK,
            "max_single_get_size": BLOCK,
            "max_chunk_get_size": BLOCK,
            "raw_response_hook": _refuse_what_is_not_azure,
        }
        try:
            if target.connection_string:
                return ContainerClient.from_connection_string(target.connection_string, target.container, **options)
            address = target.endpoint_url or f"https://{target.account}.blob.core.windows.net"
            return ContainerClient(address, target.container, _credential(target), **options)
        except ValueError as error:  # the message contains no values of a connection string
            hint = "Check AZURE_STORAGE_CONNECTION_STRING, or AZURE_ENDPOINT_URL and AZURE_STORAGE_KEY"
            raise ConfigError(f"connecting to {target.uri}", str(error).rstrip("."), hint) from None

    @property
    def _account(self) -> str:
        return f" (storage account {self._client.account_name or self._client.primary_hostname})"


class MachineIdentity:
    """Receives tokens from the environment, a workload or managed identity, or (for local runs) the Azure CLI."""

    def __init__(self) -> None:
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - takes a third of a second to import

        self._credential = DefaultAzureCredential(
            exclude_shared_token_cache_credential=True,
            exclude_visual_studio_code_credential=True,
            exclude_developer_cli_credential=True,
            exclude_powershell_credential=True,
            exclude_broker_credential=True,
        )

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Return a token, see ``azure.core.credentials.TokenCredential``."""
        try:
            return self._credential.get_token(*scopes, **options)
        except (ValueError, OSError) as error:  # the identity service is unavailable, or answers with a web page
            raise ClientAuthenticationError(f"the identity service of this machine fails: {error}") from error
        except ClientAuthenticationError as error:  # its response is not the store's response
            raise ClientAuthenticationError(error.message) from error


def _credential(target: AzureTarget) -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential:
    if target.key:
        return AzureNamedKeyCredential(target.account or "", target.key)
    return AzureSasCredential(target.sas_token.lstrip("?")) if target.sas_token else MachineIdentity()


def _refuse_what_is_not_azure(answer: PipelineResponse[Any, Any]) -> None:
    """Raise an error if a web server or proxy answers 200 instead of the store. The page would look like an object."""
    response = answer.http_response
    if response.status_code < requests.codes.multiple_choices and "x-ms-request-id" not in response.headers:
        raise UnexpectedAnswerError("the answer does not come from Azure Blob Storage")
