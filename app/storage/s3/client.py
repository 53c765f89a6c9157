"""The client of boto3 that talks to a bucket: credentials, time-outs, tries, connections, checksums."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config

from app.errors import ConfigError
from app.http_headers import fits_header
from app.storage.targets import S3Target

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Connections above the upload threads: a listing beside them, and one that is just being given back.
_SPARE_CONNECTIONS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """How patient the client is, and how large its requests are.

    What fails after ``attempts`` the pipeline tries again, and logs it. A part of a large file that fails
    is sent again, not the whole file; below two parts a single request is cheaper.

    Args:
        connect_timeout, read_timeout: seconds.
        attempts: of one request.
        part_bytes: of a file that is sent in parts.
        largest_single: bytes of a file that is sent in one request.
    """

    connect_timeout: float = 10
    read_timeout: float = 60
    attempts: int = 3
    part_bytes: int = 32 << 20
    largest_single: int = 64 << 20


LIMITS: Final = Limits()


def new_client(target: S3Target, max_workers: int, limits: Limits) -> "S3Client":
    """Make a client.

    Args:
        target: the bucket and the credentials.
        max_workers: how many threads will use it at once; sizes the connection pool.
        limits: time-outs and tries.

    Raises:
        ConfigError: keys, endpoint or region that no client can be made with.
        BotoCoreError: no keys can be had from the machine's role.
    """
    doing = f"connecting to {target.uri}"
    for name, value in (("AWS_ACCESS_KEY_ID", target.access_key), ("AWS_SESSION_TOKEN", target.session_token)):
        if value and not fits_header(value):
            cause = f"{name} holds a blank or another character that no key has"
            raise ConfigError(doing, cause, "Set it again, without quotes and line ends")
    try:
        return _session(target).client(
            "s3",
            endpoint_url=target.endpoint_url,
            aws_access_key_id=target.access_key,
            aws_secret_access_key=target.secret_key,
            aws_session_token=target.session_token,
            config=_config(target, max_workers, limits),
        )
    except ValueError as error:  # botocore's own check of the two
        raise ConfigError(doing, str(error), "Check AWS_ENDPOINT_URL and AWS_REGION") from error


def _session(target: S3Target) -> boto3.session.Session:
    """A session of the bucket's region, where the token service is to be asked for a role's keys, too.

    botocore takes ``AWS_ENDPOINT_URL`` for the address of all services. Other stores have their token service at the
    same address as their buckets; AWS has not, so that it must be forgotten for an address at AWS.
    """
    core = botocore.session.Session()
    if target.endpoint_url and _is_aws(target.endpoint_url) and not os.environ.get("AWS_ENDPOINT_URL_STS"):
        core.set_config_variable("ignore_configured_endpoint_urls", True)
    return boto3.session.Session(botocore_session=core, region_name=target.region)


def _is_aws(endpoint_url: str | None) -> bool:
    """Whether the store is Amazon's own: no endpoint, or one of its public or private (VPC) addresses."""
    host = urlsplit(endpoint_url).hostname if endpoint_url else None
    return endpoint_url is None or (host or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _config(target: S3Target, max_workers: int, limits: Limits) -> Config:
    # Off AWS the checksums that boto3 adds since 1.36 make some stores refuse an upload.
    checksums: Literal["when_supported", "when_required"] = (
        "when_supported" if _is_aws(target.endpoint_url) else "when_required"
    )
    return Config(
        max_pool_connections=max_workers + _SPARE_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": limits.attempts},
        connect_timeout=limits.connect_timeout,
        read_timeout=limits.read_timeout,
        tcp_keepalive=True,
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
    )
