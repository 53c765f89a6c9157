"""Amazon S3 and every store that speaks its protocol, through boto3."""

import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict, cast

from botocore.exceptions import ClientError

from app.errors import ConfigError, RetryableError
from app.storage.base import ChangedError, Document, StoredObject
from app.storage.conditional import WHATEVER_IS_THERE, ConditionalWriter, NoConditionsError, Replaces, Seen
from app.storage.content import CHUNK, content_type, holds
from app.storage.os_errors import os_translated
from app.storage.s3_client import Access, new_client
from app.storage.s3_config import is_aws
from app.storage.s3_errors import error_code, status_of, translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.literals import BucketLocationConstraintType
    from mypy_boto3_s3.type_defs import (
        GetObjectOutputTypeDef,
        ListObjectsV2OutputTypeDef,
        PutObjectOutputTypeDef,
    )

logger = logging.getLogger(__name__)

_US_EAST_1 = "us-east-1"
_PROXY_HINT = "Check AWS_ENDPOINT_URL, and any proxy on the way"
_NO_LISTING = "the answer is not the listing of a bucket"


class _Condition(TypedDict, total=False):
    """What must hold for a request to be carried out, under boto3's names; empty: nothing."""

    IfMatch: str
    IfNoneMatch: str


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
        self._access = Access(region, endpoint_url, access_key, secret_key, session_token, max_workers)
        self._create_missing = create_bucket
        self._documents = ConditionalWriter(self.uri, self._put, self._look)
        self._files = ConditionalWriter(self.uri, self._put_file, self._look_at_file)

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
            hint = "Set AWS_ENDPOINT_URL to the address of an S3 API"
            raise ConfigError(f"connecting to {self.uri}", _NO_LISTING, hint)
        self._tell_other_region(answer)

    def probe_conditions(self, prefix: str) -> None:
        """Try conditional writes on an object of our own, and delete it again."""
        key = f"{prefix}probe-{secrets.token_hex(8)}.json"
        try:
            if not self._documents.probe(key, b"{}", b'{"second": true}'):
                self._files.do_without_conditions()
        finally:
            self.delete(key)

    def upload(self, path: Path, key: str) -> StoredObject:
        """Put the file under ``key``. A PUT is atomic: readers see the whole object or none."""
        doing = f"uploading {self.uri}/{key}"
        with os_translated(doing), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            answer = self._send(doing, key, file, WHATEVER_IS_THERE)
        return StoredObject(key, size, _answered_at(answer["ResponseMetadata"]["HTTPHeaders"]))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects under ``prefix`` in the order of their keys (UTF-8 bytes), 1,000 per request."""
        pages = iter(self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix))
        while True:
            with self._asking(f"listing {self.uri}/{prefix}"):
                page = next(pages, None)
            if page is None:
                return
            if "IsTruncated" not in page:  # a web page must not look like an empty folder
                raise RetryableError(f"listing {self.uri}/{prefix}", _NO_LISTING, _PROXY_HINT)
            for item in page.get("Contents", []):
                yield StoredObject(item["Key"], item["Size"], item["LastModified"])

    def read(self, key: str) -> Document | None:
        """Read a small object, or ``None`` when there is none."""
        doing = f"reading {self.uri}/{key}"
        with self._asking(doing):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
            except self._client.exceptions.NoSuchKey:
                return None
            with closing(answer["Body"]) as stream:
                return Document(stream.read(), _etag(answer, doing))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to ``length`` bytes from ``start`` on; fewer, or none, where the object ends."""
        if not length:  # a range of no bytes cannot be asked for
            return b""
        wanted = f"bytes={start}-{start + length - 1}"
        doing = f"reading {self.uri}/{key}"
        with self._asking(doing):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key, Range=wanted)
            except ClientError as error:
                if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return b""
                raise
            _etag(answer, doing)
            with closing(answer["Body"]) as stream:
                return stream.read()

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Store a small object in place of the version ``replaces``; a lost answer is found out by reading."""
        return self._documents.write(key, body, replaces)

    def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
        """Put the file in place of the version ``replaces``; a lost answer is found out by reading."""
        self._files.write(key, path, replaces)
        stored = next((found for found in self.list(key) if found.key == key), None)
        if stored is None:
            raise ChangedError(f"{self.uri}/{key} was deleted right after it was replaced")
        return stored

    def download(self, key: str, path: Path) -> str:
        """Copy the object into a local file; nothing is left of one that does not arrive whole."""
        doing = f"downloading {self.uri}/{key}"
        with os_translated(doing), self._asking(doing):
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            etag = _etag(answer, doing)
            try:
                with closing(answer["Body"]) as stream, path.open("wb") as file:
                    for chunk in stream.iter_chunks(CHUNK):
                        file.write(chunk)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return etag

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there counts as deleted."""
        doing = f"deleting {self.uri}/{key}"
        with self._asking(doing):
            try:
                answer = self._client.delete_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if error_code(error) != "NoSuchKey":  # AWS says 204 to that, not every store does
                    raise
                return
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        # Any web page comes with status 200, and few stores say it to this.
        if status != HTTPStatus.NO_CONTENT and any(found.key == key for found in self.list(key)):
            raise RetryableError(doing, f"the answer is {status}, and the object is still there", _PROXY_HINT)

    def _put(self, key: str, body: bytes, replaces: Replaces) -> str:
        """Put a small object and return its ETag."""
        return self._send(f"writing {self.uri}/{key}", key, body, replaces)["ETag"]

    def _look(self, key: str, body: bytes) -> Seen | None:
        found = self.read(key)
        return Seen(found.etag, found.body == body) if found else None

    def _put_file(self, key: str, path: Path, replaces: Replaces) -> str:
        """Put a file and return its ETag."""
        doing = f"replacing {self.uri}/{key}"
        with os_translated(doing), path.open("rb") as file:
            return self._send(doing, key, file, replaces)["ETag"]

    def _look_at_file(self, key: str, path: Path) -> Seen | None:
        doing = f"reading {self.uri}/{key}"
        with os_translated(doing), self._asking(doing):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
            except self._client.exceptions.NoSuchKey:
                return None
            with closing(answer["Body"]) as stream:
                return Seen(_etag(answer, doing), holds(path, stream.iter_chunks(CHUNK)))

    def _send(self, doing: str, key: str, body: bytes | BinaryIO, replaces: Replaces) -> "PutObjectOutputTypeDef":
        """Put an object in place of that version; the answer is sure to have an ETag."""
        conditional = replaces is not WHATEVER_IS_THERE
        with self._asking(doing):
            try:
                answer = self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=body, ContentType=content_type(key), **_condition(replaces)
                )
            except ClientError as error:
                if conditional and _says_changed(error):
                    raise ChangedError(f"{self.uri}/{key} is not the version that was to be replaced") from error
                if conditional and status_of(error) == HTTPStatus.NOT_IMPLEMENTED:
                    raise NoConditionsError from error
                raise
        _etag(answer, doing)
        return answer

    @cached_property
    def _client(self) -> "S3Client":
        """Made at the first use: boto3 asks for a role's keys while it makes one, and that may need a second try."""
        return new_client(self._access, f"connecting to {self.uri}")

    def _asking(self, doing: str) -> AbstractContextManager[None]:
        return translated(doing, fixed_token=self._access.session_token is not None)

    def _list_one(self, prefix: str) -> "ListObjectsV2OutputTypeDef":
        return self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=1)

    def _create_bucket(self) -> None:
        with self._asking(f"creating the bucket {self.uri}"):
            try:
                # AWS wants any region but its first named; other stores have one region and may refuse to be told.
                if is_aws(self._access.endpoint_url) and self._access.region != _US_EAST_1:
                    region = cast("BucketLocationConstraintType", self._access.region)
                    self._client.create_bucket(
                        Bucket=self._bucket, CreateBucketConfiguration={"LocationConstraint": region}
                    )
                else:
                    self._client.create_bucket(Bucket=self._bucket)
            except self._client.exceptions.BucketAlreadyOwnedByYou:
                return  # another replica was quicker
        logger.info("Created the bucket %s in region %s", self.uri, self._access.region)

    def _tell_other_region(self, answer: "ListObjectsV2OutputTypeDef") -> None:
        """boto3 follows a bucket to its region by itself, once per client; the user still wants to know."""
        region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", self._access.region)
        if region != self._access.region:
            logger.warning(
                "%s lies in region %s; set AWS_REGION=%s to reach it without the detour over %s",
                self.uri,
                region,
                region,
                self._access.region,
            )


def _condition(replaces: Replaces) -> _Condition:
    if replaces is WHATEVER_IS_THERE:
        return {}
    return {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}


def _says_changed(error: ClientError) -> bool:
    """Whether a condition failed; ``If-Match`` on an object that is gone gives "no such key"."""
    return status_of(error) == HTTPStatus.PRECONDITION_FAILED or error_code(error) == "NoSuchKey"


def _etag(answer: "PutObjectOutputTypeDef | GetObjectOutputTypeDef", doing: str) -> str:
    """The object's ETag. Every S3 sends it; a proxy's page with status 200 neither stores nor is what was stored."""
    if "ETag" not in answer:
        raise RetryableError(doing, "the answer has no ETag, so it is not that of a store", _PROXY_HINT)
    return answer["ETag"]


def _answered_at(headers: Mapping[str, str]) -> datetime:
    """The store's clock where it shows one, else ours."""
    try:
        return parsedate_to_datetime(headers.get("date", "")).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
