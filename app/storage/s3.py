"""Amazon S3 and every store that speaks its protocol, through boto3."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from app.errors import ConfigError, RetryableError
from app.http_headers import fits_header
from app.storage.base import StoredObject
from app.storage.os_errors import os_translated
from app.storage.s3_errors import ADDRESS_HINT, translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.literals import BucketLocationConstraintType
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

logger = logging.getLogger(__name__)

_PARQUET = "application/vnd.apache.parquet"
_US_EAST_1 = "us-east-1"
_PROXY_HINT = "Check AWS_ENDPOINT_URL, and any proxy on the way"

# Seconds, and tries per request. What still fails then is the pipeline's to try again, with the user told.
_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 60
_ATTEMPTS = 3

# Connections above the upload threads: a listing beside them, and one that is just being given back.
_SPARE_CONNECTIONS = 2


class S3Store:
    """One bucket.

    A custom endpoint is addressed in path style (``http://host/bucket/key``), AWS in virtual-host style unless the
    bucket's name has dots: botocore's own choice, which an ``addressing_style`` in the AWS configuration overrides.

    Args:
        bucket: the bucket's name.
        region: the bucket's region; also where a missing bucket is created.
        endpoint_url: the address of a store other than AWS.
        access_key: with ``secret_key``, fixed keys; without both, boto3's default chain (environment, files, role).
        secret_key: see ``access_key``.
        session_token: goes with temporary keys.
        max_workers: how many threads will upload at once; sizes the connection pool.
        create_bucket: whether ``connect`` may create a missing bucket.
    """

    def __init__(
        self,
        bucket: str,
        *,
        region: str,
        endpoint_url: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        max_workers: int,
        create_bucket: bool,
    ) -> None:
        self._bucket = bucket
        self._region = region
        self._endpoint_url = endpoint_url
        self._access_key = access_key
        self._secret_key = secret_key
        self._session_token = session_token
        self._max_workers = max_workers
        self._create_missing = create_bucket

    @property
    def uri(self) -> str:
        """``s3://bucket``, on whatever endpoint: what readers and the catalog expect of every S3-compatible store."""
        return f"s3://{self._bucket}"

    def connect(self, prefix: str) -> None:
        """Prove that the bucket is there and can be listed below the prefix; create it when missing and allowed.

        A listing is asked rather than the bucket's head: refusals to a HEAD have no body that says why.
        """
        client = self._client
        with self._asking(f"connecting to {self.uri}"):
            try:
                answer = self._list_one(prefix)
            except client.exceptions.NoSuchBucket as error:
                if not self._create_missing:
                    hint = "Create it, or check S3_BUCKET and AWS_ENDPOINT_URL"
                    raise ConfigError(f"connecting to {self.uri}", "there is no such bucket", hint) from error
                self._create_bucket()
                answer = self._list_one(prefix)
        if "IsTruncated" not in answer:  # a web server that says 200 to everything would swallow every upload too
            cause = "the answer is not the listing of a bucket"
            raise ConfigError(f"connecting to {self.uri}", cause, "Set AWS_ENDPOINT_URL to the address of an S3 API")
        self._tell_other_region(answer)

    def upload(self, path: Path, key: str) -> StoredObject:
        """Put the file under ``key``. A PUT is atomic: readers see the whole object or none."""
        doing = f"uploading {self.uri}/{key}"
        with os_translated(doing), path.open("rb") as file, self._asking(doing):
            size = os.fstat(file.fileno()).st_size
            answer = self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=file,
                ContentType=_PARQUET if key.endswith(".parquet") else "application/octet-stream",
            )
        if "ETag" not in answer:  # every S3 sends it; a proxy's page with status 200 has stored nothing
            raise RetryableError(
                doing, "the answer has no ETag, so nothing says that the object is stored", _PROXY_HINT
            )
        return StoredObject(key, size, _answered_at(answer["ResponseMetadata"]["HTTPHeaders"]))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects under ``prefix`` in the order of their keys (UTF-8 bytes), 1,000 per request."""
        pages = iter(self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix))
        while True:
            with self._asking(f"listing {self.uri}/{prefix}"):
                page = next(pages, None)
            if page is None:
                return
            for item in page.get("Contents", []):
                yield StoredObject(item["Key"], item["Size"], item["LastModified"])

    @cached_property
    def _client(self) -> "S3Client":
        """Made at the first use: boto3 asks for a role's keys while it makes a client, and that may need a second try.

        Raises:
            ConnectorError: keys, endpoint or region that no client can be made with; a role that does not answer.
        """
        doing = f"connecting to {self.uri}"
        for name, value in (("AWS_ACCESS_KEY_ID", self._access_key), ("AWS_SESSION_TOKEN", self._session_token)):
            if value and not fits_header(value):
                cause = f"{name} holds a blank or another character that no key has"
                raise ConfigError(doing, cause, "Set it anew, without quotes and line ends")
        try:
            with self._asking(doing):
                return boto3.session.Session().client(
                    "s3",
                    region_name=self._region,
                    endpoint_url=self._endpoint_url,
                    aws_access_key_id=self._access_key,
                    aws_secret_access_key=self._secret_key,
                    aws_session_token=self._session_token,
                    config=_client_config(self._max_workers, on_aws=_is_aws(self._endpoint_url)),
                )
        except ValueError as error:  # botocore's own check of the two
            raise ConfigError(doing, str(error), ADDRESS_HINT) from error

    def _asking(self, doing: str) -> AbstractContextManager[None]:
        return translated(doing, fixed_token=self._session_token is not None)

    def _list_one(self, prefix: str) -> "ListObjectsV2OutputTypeDef":
        return self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=1)

    def _create_bucket(self) -> None:
        with self._asking(f"creating the bucket {self.uri}"):
            try:
                # AWS wants any region but its first named; other stores have one region and may refuse to be told.
                if _is_aws(self._endpoint_url) and self._region != _US_EAST_1:
                    region = cast("BucketLocationConstraintType", self._region)
                    self._client.create_bucket(
                        Bucket=self._bucket, CreateBucketConfiguration={"LocationConstraint": region}
                    )
                else:
                    self._client.create_bucket(Bucket=self._bucket)
            except self._client.exceptions.BucketAlreadyOwnedByYou:
                return  # another replica was quicker
        logger.info("Created the bucket %s in region %s", self.uri, self._region)

    def _tell_other_region(self, answer: "ListObjectsV2OutputTypeDef") -> None:
        """boto3 follows a bucket to its region by itself, once per client; the user still wants to know."""
        region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", self._region)
        if region != self._region:
            logger.warning(
                "%s lies in region %s; set AWS_REGION=%s to reach it without the detour over %s",
                self.uri,
                region,
                region,
                self._region,
            )


def _is_aws(endpoint_url: str | None) -> bool:
    """Whether the store is Amazon's own: no endpoint, or one of its public or private (VPC) addresses."""
    host = urlsplit(endpoint_url).hostname if endpoint_url else None
    return endpoint_url is None or (host or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _client_config(max_workers: int, *, on_aws: bool) -> Config:
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


def _answered_at(headers: Mapping[str, str]) -> datetime:
    """The store's clock where it shows one, else ours."""
    try:
        return parsedate_to_datetime(headers.get("date", "")).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
