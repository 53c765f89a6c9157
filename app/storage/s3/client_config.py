"""How boto3 is told to talk to a store: time-outs, tries, connections, checksums."""

from typing import Literal
from urllib.parse import urlsplit

from botocore.config import Config

# Seconds, and tries per request. What still fails then is the pipeline's to try again, with the user told.
_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 60
_ATTEMPTS = 3

# Connections above the upload threads: a listing beside them, and one that is just being given back.
_SPARE_CONNECTIONS = 2


def is_aws(endpoint_url: str | None) -> bool:
    """Whether the store is Amazon's own: no endpoint, or one of its public or private (VPC) addresses."""
    host = urlsplit(endpoint_url).hostname if endpoint_url else None
    return endpoint_url is None or (host or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


def client_config(max_workers: int, *, on_aws: bool) -> Config:
    """The configuration of a client that ``max_workers`` threads upload with."""
    # Off AWS the checksums that boto3 adds since 1.36 make some stores refuse an upload.
    checksums: Literal["when_supported", "when_required"] = "when_supported" if on_aws else "when_required"
    return Config(
        max_pool_connections=max_workers + _SPARE_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        connect_timeout=_CONNECT_TIMEOUT,
        read_timeout=_READ_TIMEOUT,
        tcp_keepalive=True,
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
    )
