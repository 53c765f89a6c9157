"""Creates the boto3 client for a bucket, with credentials, time-outs, retries, connections and checksums."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import CredentialRetrievalError, IncompleteReadError

from app.errors import ConfigError
from app.http_headers import fits_header
from app.storage.s3.errors import REVOKED
from app.storage.targets import S3Target, is_aws_address

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class Limits:
    """Time-outs in seconds, attempts of one request, and sizes of requests in bytes.

    After ``attempts``, the pipeline logs the error and retries. If a part of a large file fails, only this part is sent
    again. Files up to ``largest_single`` are sent in a single request, which is cheaper.
    """

    connect_timeout: float = 10
    read_timeout: float = 60
    attempts: int = 3
    part_bytes: int = 32 << 20
    largest_single: int = 64 << 20


LIMITS: Final = Limits()


def new_client(target: S3Target, connections: int, limits: Limits) -> "S3Client":
    """Creates a client that keeps this number of connections.

    Raises ``ConfigError`` for an invalid access key, endpoint or region, and ``BotoCoreError`` for a role without keys.
    """
    doing = f"connecting to {target.uri}"
    for name, value in (("AWS_ACCESS_KEY_ID", target.access_key), ("AWS_SESSION_TOKEN", target.session_token)):
        if value and not fits_header(value):
            cause = f"{name} holds a blank or another character that no key has"
            raise ConfigError(doing, cause, "Set it again, without quotes and line ends")
    try:
        # Some stores other than AWS refuse uploads with the checksums that boto3 adds since 1.36.
        is_aws = target.endpoint_url is None or is_aws_address(target.endpoint_url)
        checksums: Literal["when_supported", "when_required"] = "when_supported" if is_aws else "when_required"
        session = _session(target)
        client = session.client(
            "s3",
            endpoint_url=target.endpoint_url,
            config=Config(
                max_pool_connections=connections,
                retries={"mode": "standard", "total_max_attempts": limits.attempts},
                connect_timeout=limits.connect_timeout,
                read_timeout=limits.read_timeout,
                tcp_keepalive=True,
                request_checksum_calculation=checksums,
                response_checksum_validation=checksums,
            ),
        )
    except ValueError as error:  # raised by botocore's check of endpoint and region
        raise ConfigError(doing, str(error), "Check AWS_ENDPOINT_URL and AWS_REGION") from error
    client.meta.events.register("before-parse.s3", _require_all)
    if target.lend and isinstance(credentials := session.get_credentials(), _LentCredentials):
        client.meta.events.register("after-call.s3", credentials.end_if_revoked)
    return client


def _require_all(response_dict: Mapping[str, Any], **_: object) -> None:
    """Refuses a truncated error answer. botocore would accept the answer, and accept a proxy's 404 as the store's.

    The connector never sends HEAD, because the answer would have a length and no body.
    """
    arrived, length = response_dict["body"], response_dict["headers"].get("content-length", "")
    is_error = response_dict["status_code"] >= HTTPStatus.BAD_REQUEST
    if is_error and length.isdecimal() and len(arrived) < int(length):
        raise IncompleteReadError(actual_bytes=len(arrived), expected_bytes=length)


class _LentCredentials(DeferredRefreshableCredentials):
    """Keys of the catalog. During an outage of the catalog, the keys are used almost to their end."""

    _advisory_refresh_timeout = 120  # seconds before the end; the default, 15 minutes, is the whole time of some keys
    _mandatory_refresh_timeout = 15

    def end_if_revoked(self, parsed: Mapping[str, Any], **_: object) -> None:
        """Lets the next request refresh the keys if the store no longer accepts them."""
        if parsed.get("Error", {}).get("Code") in REVOKED:
            self._expiry_time = datetime.now(UTC)


def _fetch(fetcher: AssumeRoleCredentialFetcher) -> Any:
    try:
        return fetcher.fetch_credentials()
    except KeyError as error:  # a proxy's page, for example
        raise CredentialRetrievalError(provider="assume-role", error_msg=f"the answer has no {error}") from None


def _session(target: S3Target) -> boto3.session.Session:
    """Creates a session for the bucket's region. An address of AWS in ``endpoint_url`` is only used for S3."""
    core = botocore.session.Session()
    if target.endpoint_url and not target.token_service:
        core.set_config_variable("ignore_configured_endpoint_urls", True)
    if target.access_key and target.secret_key:
        core.set_credentials(target.access_key, target.secret_key, target.session_token)
    if target.lend:
        vars(core)["_credentials"] = _LentCredentials(target.lend, "iceberg-catalog")
    elif target.role_arn and (login := core.get_credentials()):
        new_client = partial(core.create_client, region_name=target.region, endpoint_url=target.token_service)
        options = {"RoleSessionName": target.role_session}
        if target.role_external_id:
            options["ExternalId"] = target.role_external_id
        fetcher = AssumeRoleCredentialFetcher(new_client, login, target.role_arn, options)
        vars(core)["_credentials"] = DeferredRefreshableCredentials(partial(_fetch, fetcher), "assume-role")
    return boto3.session.Session(botocore_session=core, region_name=target.region)
