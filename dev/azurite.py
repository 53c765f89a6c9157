"""A private Azure Blob Storage: Azurite with its own account, port and data."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient

from dev.azurite_program import azurite_command
from dev.server import NativeServer, free_ports


class LocalAzurite(NativeServer):
    """Azurite's blob service on a free port of 127.0.0.1, with its data in a temporary folder.

    ``log`` has a line for each request.

    Args:
        certificate: files with a certificate for 127.0.0.1 and its key. With them the server speaks HTTPS and takes
            tokens of Entra ID, whoever signed them.
    """

    name: ClassVar[str] = "azurite"

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        super().__init__()
        self._certificate = certificate
        self._port = free_ports(1)[0]
        self.account = f"lake{secrets.token_hex(4)}"
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        scheme = "https" if certificate else "http"
        self.endpoint_url = f"{scheme}://127.0.0.1:{self._port}/{self.account}"
        self.connection_string = (
            f"DefaultEndpointsProtocol={scheme};AccountName={self.account};AccountKey={self.key};"
            f"BlobEndpoint={self.endpoint_url};"
        )

    def client(self, timeout: float = 10.0, retries: int = 3) -> BlobServiceClient:
        """A client of this server; ``timeout`` in seconds for connecting and for each read."""
        return BlobServiceClient.from_connection_string(
            self.connection_string,
            connection_timeout=timeout,
            read_timeout=timeout,
            retry_total=retries,
            initial_backoff=1,
            connection_verify=str(self._certificate[0]) if self._certificate else True,
        )

    def _command(self) -> Sequence[str]:
        return [
            *azurite_command(),
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            str(self._port),
            "--location",
            str(self.folder / "data"),
            "--skipApiVersionCheck",  # the library may speak a version that this Azurite does not name yet
            "--disableTelemetry",
            *self._https(),
        ]

    def _https(self) -> Sequence[str]:
        if self._certificate is None:
            return []
        certificate, key = self._certificate
        return ["--cert", str(certificate), "--key", str(key), "--oauth", "basic"]

    def _environment(self) -> Mapping[str, str]:
        return {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}

    def _is_ready(self) -> bool:
        try:
            next(self.client(timeout=2.0, retries=0).list_containers(results_per_page=1).by_page(), None)
        except AzureError:
            return False
        return True
