"""A private S3 server: MinIO with its own credentials, port and data."""

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dev.minio_binary import minio_binary
from dev.server import NativeServer, free_ports

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class LocalMinio(NativeServer):
    """MinIO on a free port of 127.0.0.1, with its data in a temporary folder."""

    name: ClassVar[str] = "minio"

    def __init__(self) -> None:
        super().__init__()
        self._port = free_ports(1)[0]
        self.endpoint_url = f"http://127.0.0.1:{self._port}"
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
            config=Config(
                connect_timeout=timeout,
                read_timeout=timeout,
                retries={"total_max_attempts": attempts, "mode": "standard"},
            ),
        )

    def _command(self) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        certificates = str(self.folder / "certs")  # else it looks for some in the home folder and turns to HTTPS
        return [
            minio_binary(),
            "server",
            str(data),
            "--address",
            f"127.0.0.1:{self._port}",
            "--certs-dir",
            certificates,
        ]

    def _environment(self) -> Mapping[str, str]:
        return {
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_SITE_REGION": self.region,
            "MINIO_BROWSER": "off",  # the console would take a second port
            "MINIO_UPDATE": "off",
            "HOME": str(self.folder),  # it keeps things there
        }

    def _is_ready(self) -> bool:
        # its health page answers before the credentials are loaded; a signed request tells
        try:
            self.client(timeout=2.0, attempts=1).list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True
