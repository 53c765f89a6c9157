"""The client of boto3 that talks to a bucket."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import botocore.session

from app.errors import ConfigError
from app.http_headers import fits_header
from app.storage.s3.client_config import client_config, is_aws
from app.storage.s3.errors import ADDRESS_HINT, Question, translated

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


def new_client(access: Access, asked: Question) -> "S3Client":
    """Make a client.

    Args:
        access: where, and with what.
        asked: what it is made for, for messages.

    Raises:
        ConnectorError: keys, endpoint or region that no client can be made with; a role that does not answer.
    """
    for name, value in (("AWS_ACCESS_KEY_ID", access.access_key), ("AWS_SESSION_TOKEN", access.session_token)):
        if value and not fits_header(value):
            cause = f"{name} holds a blank or another character that no key has"
            raise ConfigError(asked.doing, cause, "Set it anew, without quotes and line ends")
    _check_files(access, asked)
    try:
        with translated(asked):
            return _session(access).client(
                "s3",
                endpoint_url=access.endpoint_url,
                aws_access_key_id=access.access_key,
                aws_secret_access_key=access.secret_key,
                aws_session_token=access.session_token,
                config=client_config(access.max_workers, on_aws=is_aws(access.endpoint_url)),
            )
    except ValueError as error:  # botocore's own check of the two
        raise ConfigError(asked.doing, str(error), ADDRESS_HINT) from error


def _check_files(access: Access, asked: Question) -> None:
    """See that the files are there that botocore opens with the first request, in the middle of anything."""
    names = ["AWS_CA_BUNDLE"]
    if access.access_key is None and os.environ.get("AWS_ROLE_ARN"):
        names.append("AWS_WEB_IDENTITY_TOKEN_FILE")
    for name in names:
        path = os.environ.get(name)
        if path and not os.access(path, os.R_OK):
            cause = f"{name} names {path}, which is not there or may not be read"
            raise ConfigError(asked.doing, cause, "Correct it, or mount the file")


def _session(access: Access) -> boto3.session.Session:
    """A session of the bucket's region, where the token service is to be asked for a role's keys, too.

    botocore takes ``AWS_ENDPOINT_URL`` for the address of all services. Other stores have their token service at the
    same address as their buckets; AWS has not, so that it must be forgotten for an address at AWS.
    """
    core = botocore.session.Session()
    if access.endpoint_url and is_aws(access.endpoint_url) and not os.environ.get("AWS_ENDPOINT_URL_STS"):
        core.set_config_variable("ignore_configured_endpoint_urls", True)
    return boto3.session.Session(botocore_session=core, region_name=access.region)
