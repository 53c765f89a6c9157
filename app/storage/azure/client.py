"""The client that talks to a container: address, credentials, time-outs, connections."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import requests
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import ContainerClient
from requests.adapters import HTTPAdapter

from app.errors import ConfigError
from app.storage.base import SPARE_CONNECTIONS
from app.storage.cloud_store import UnexpectedAnswerError
from app.storage.targets import AzureTarget

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.core.pipeline import PipelineResponse

_READ_BYTES = 256 << 10  # per read of an answer
_RETRIES = 2  # of one request; after them the pipeline logs the error and retries
_FIRST_PAUSE = 0.5  # the library's own is 15

# Larger objects are sent in blocks of this many bytes; readers see them once a last request joins them.
# Each thread holds one block in memory.
BLOCK = 8 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Time-outs in seconds: to connect, and between two chunks of an answer."""

    connect_timeout: float = 10
    read_timeout: float = 60


LIMITS: Final = Limits()


class MachineIdentity:
    """Gets tokens from the environment, a workload identity, a managed identity, or (for local runs) the Azure CLI."""

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
        """Implements ``azure.core.credentials.TokenCredential``."""
        try:
            return self._credential.get_token(*scopes, **options)
        except (ValueError, OSError) as error:  # the identity service is away, or answers with a web page
            raise ClientAuthenticationError(f"the identity service of this machine fails: {error}") from error
        except ClientAuthenticationError as error:  # holds an answer of the identity service, not of the store
            raise ClientAuthenticationError(error.message) from error


def new_client(target: AzureTarget, max_workers: int, limits: Limits) -> ContainerClient:
    """Makes a client for all threads, which raises only errors that ``app.storage.azure.errors`` translates.

    ``max_workers`` sizes its connection pool. Raises ``ConfigError`` if the credentials cannot be read.
    """
    session = requests.Session()
    adapter = HTTPAdapter(pool_maxsize=max_workers + SPARE_CONNECTIONS)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    session.auth = lambda request: request  # else a user's .netrc would replace the signature
    options: dict[str, Any] = {
        # The time-outs go to the transport: the client ignores its own where a transport is given.
        "transport": RequestsTransport(
            session=session,
            connection_timeout=limits.connect_timeout,
            read_timeout=limits.read_timeout,
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
    except ValueError as error:  # its text names parts of a connection string, never their values
        hint = "Check AZURE_STORAGE_CONNECTION_STRING, or AZURE_ENDPOINT_URL and AZURE_STORAGE_KEY"
        raise ConfigError(f"connecting to {target.uri}", str(error).rstrip("."), hint) from None


def _credential(target: AzureTarget) -> "AzureNamedKeyCredential | AzureSasCredential | TokenCredential":
    if target.key:
        return AzureNamedKeyCredential(target.account or "", target.key)
    return AzureSasCredential(target.sas_token.lstrip("?")) if target.sas_token else MachineIdentity()


def _refuse_what_is_not_azure(answer: "PipelineResponse[Any, Any]") -> None:
    """Refuses the 200 of a web server or proxy, which would look like a stored object."""
    response = answer.http_response
    if response.status_code < requests.codes.multiple_choices and "x-ms-request-id" not in response.headers:
        raise UnexpectedAnswerError("the answer is not that of Azure Blob Storage")
