"""A private S3 server: MinIO with its own credentials, port and data."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from app.storage.targets import S3Target
from dev.minio_binary import minio_binary
from dev.server import NativeServer, free_ports

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


KMS_KEY: Final = "lake-key"  # the name of the one key that it encrypts with


class LocalMinio(NativeServer):
    """MinIO on a free port of 127.0.0.1, with its data in a temporary folder.

    Args:
        certificates: a folder with ``public.crt``, ``private.key`` and the authority's ``ca.pem``, to speak HTTPS with.
    """

    name: ClassVar[str] = "minio"

    def __init__(self, certificates: Path | None = None) -> None:
        super().__init__()
        self._port = free_ports(1)[0]
        self._certificates = certificates
        self.endpoint_url = f"{'https' if certificates else 'http'}://127.0.0.1:{self._port}"
        self.access_key = secrets.token_hex(8)
        self.secret_key = secrets.token_hex(16)
        self.region = "us-east-1"

    def client(self, timeout: float = 10.0, attempts: int = 3) -> "S3Client":
        """A boto3 client of this server; ``timeout`` in seconds for connecting and for each read."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            verify=str(self._certificates / "ca.pem") if self._certificates else None,
            config=Config(
                connect_timeout=timeout,
                read_timeout=timeout,
                retries={"total_max_attempts": attempts, "mode": "standard"},
            ),
        )

    def target(self, bucket: str) -> S3Target:
        """A bucket of this server, for the connector's store; a missing one is not created."""
        return S3Target(bucket, self.region, self.endpoint_url, self.access_key, self.secret_key)

    def _command(self) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        # with none named it looks for some in the home folder and turns to HTTPS
        certificates = self._certificates or self.folder / "no-certificates"
        return [
            minio_binary(),
            "server",
            str(data),
            "--address",
            f"127.0.0.1:{self._port}",
            "--certs-dir",
            str(certificates),
        ]

    def _environment(self) -> Mapping[str, str]:
        return {
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_SITE_REGION": self.region,
            "MINIO_BROWSER": "off",  # the console would take a second port
            "MINIO_UPDATE": "off",
            "MINIO_PROMETHEUS_AUTH_TYPE": "public",  # who counts requests needs no token
            "HOME": str(self.folder),  # it keeps things there
            # lets it encrypt what it is asked to encrypt, and nothing else
            "MINIO_KMS_SECRET_KEY": f"{KMS_KEY}:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        }

    def _is_ready(self) -> bool:
        # its health page answers before the credentials are loaded; a signed request tells
        try:
            self.client(timeout=2.0, attempts=1).list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True
