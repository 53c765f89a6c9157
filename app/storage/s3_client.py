"""The client of boto3 that talks to a bucket."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3

from app.errors import ConfigError
from app.http_headers import fits_header
from app.storage.s3_config import client_config, is_aws
from app.storage.s3_errors import ADDRESS_HINT, translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class Access:
    """Where a store is and what lets in; ``max_workers`` threads will use it at once.

    Without both keys boto3's default chain finds some: environment, files, role.
    """

    region: str
    endpoint_url: str | None
    access_key: str | None
    secret_key: str | None
    session_token: str | None
    max_workers: int


def new_client(access: Access, doing: str) -> "S3Client":
    """Make a client.

    Args:
        access: where, and with what.
        doing: what it is made for, for messages.

    Raises:
        ConnectorError: keys, endpoint or region that no client can be made with; a role that does not answer.
    """
    for name, value in (("AWS_ACCESS_KEY_ID", access.access_key), ("AWS_SESSION_TOKEN", access.session_token)):
        if value and not fits_header(value):
            cause = f"{name} holds a blank or another character that no key has"
            raise ConfigError(doing, cause, "Set it anew, without quotes and line ends")
    try:
        with translated(doing, fixed_token=access.session_token is not None):
            return boto3.session.Session().client(
                "s3",
                region_name=access.region,
                endpoint_url=access.endpoint_url,
                aws_access_key_id=access.access_key,
                aws_secret_access_key=access.secret_key,
                aws_session_token=access.session_token,
                config=client_config(access.max_workers, on_aws=is_aws(access.endpoint_url)),
            )
    except ValueError as error:  # botocore's own check of the two
        raise ConfigError(doing, str(error), ADDRESS_HINT) from error
