"""Amazon S3 and every store that speaks its protocol, through boto3."""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, suppress
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from botocore.exceptions import ClientError

from app.errors import ConfigError, FatalError, RetryableError
from app.storage.base import CHUNK, Document, StoredObject, holds
from app.storage.conditional import WHATEVER_IS_THERE, ConditionalWriter, Replaces, Seen
from app.storage.os_errors import os_translated
from app.storage.probe import own_object
from app.storage.s3.client import LIMITS, Limits, is_aws, new_client
from app.storage.s3.errors import PROXY_HINT, Question, error_code, status_of, translated
from app.storage.s3.target import S3Target
from app.storage.s3.upload import Encryption, Sender, answered_at, field_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.literals import BucketLocationConstraintType
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

logger = logging.getLogger(__name__)

_US_EAST_1 = "us-east-1"
_NO_LISTING = "the answer is not the listing of a bucket"
_NOT_IN_PARTS = (
    "%s ignores conditions where an upload in parts is completed. Files of batches that were rolled back are deleted "
    "repeatedly instead: their rows may be there twice for up to ten minutes after a crash"
)


class S3Store:
    """One bucket.

    A custom endpoint is addressed in path style (``http://host/bucket/key``), AWS in virtual-host style unless the
    bucket's name has dots: botocore's own choice, which an ``addressing_style`` in the AWS configuration overrides.

    Args:
        target: the bucket, and the access to it.
        sse: the encryption that every object is stored with; ``None`` leaves it to the bucket.
        sse_kms_key_id: the key for ``aws:kms``; ``None`` is the account's own.
        max_workers: how many threads will upload at once; sizes the connection pool.
        limits: time-outs, tries, and sizes of requests.
    """

    def __init__(
        self,
        target: S3Target,
        *,
        sse: Literal["AES256", "aws:kms"] | None = None,
        sse_kms_key_id: str | None = None,
        max_workers: int,
        limits: Limits = LIMITS,
    ) -> None:
        self._target = target
        self._bucket = target.bucket
        self._prefix = ""
        self._max_workers = max_workers
        self._limits = limits
        self._encryption: Encryption = {}
        if sse:
            self._encryption["ServerSideEncryption"] = sse
        if sse_kms_key_id:
            self._encryption["SSEKMSKeyId"] = sse_kms_key_id
        self._sender = Sender(lambda: self._client, target.bucket, self._asking, self._encryption, limits)
        self._documents: ConditionalWriter[bytes, str] = ConditionalWriter(self.uri, self._put, self._look)
        self._files = ConditionalWriter(self.uri, self._put_file, self._look_at_file)

    @property
    def uri(self) -> str:
        """``s3://bucket``."""
        return self._target.uri

    def connect(self, prefix: str) -> None:
        """Prove that the bucket is there and can be listed below the prefix; create it when missing and allowed.

        A listing is asked rather than the bucket's head: refusals to a HEAD have no body that says why.
        """
        self._prefix = prefix
        client = self._client
        with self._asking(f"connecting to {self.uri}"):
            try:
                answer = self._list_one(prefix)
            except client.exceptions.NoSuchBucket as error:
                if not self._target.may_create:
                    hint = "Check S3_BUCKET, STORAGE_URL and AWS_ENDPOINT_URL; create it, or set CREATE_BUCKET=true"
                    raise ConfigError(f"connecting to {self.uri}", "there is no such bucket", hint) from error
                self._create_bucket()
                answer = self._list_one(prefix)
        if "IsTruncated" not in answer:  # a web server that says 200 to everything would swallow every upload too
            hint = "Set AWS_ENDPOINT_URL to the address of an S3 API"
            raise ConfigError(f"connecting to {self.uri}", _NO_LISTING, hint)
        self._log_other_region(answer)

    def probe_conditions(self, prefix: str) -> None:
        """Try conditional writes on an object of our own, and all rights that are needed; then delete it again."""
        with own_object(prefix, self.delete) as key:
            hold = self._documents.probe(key, b"{}", b'{"second": true}')
            hold_in_parts = self._sender.refuses_parts(key)
            if hold and not hold_in_parts:
                logger.warning(_NOT_IN_PARTS, self.uri)
            self._files.rely_on_conditions(hold and hold_in_parts)
            self.read(key)

    @property
    def refuses_overwrites(self) -> bool:
        """Whether the store knows conditional writes."""
        return self._files.has_conditions

    def upload(self, path: Path, key: str) -> StoredObject:
        """Put the file under ``key``, where nothing is; readers see the whole object or none."""
        return self._files.create(key, path)

    def overwrite(self, key: str, body: bytes) -> None:
        """Put a small object in place of whatever is there."""
        self._put(key, body, WHATEVER_IS_THERE)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects under ``prefix`` in the order of their keys (UTF-8 bytes), 1,000 per request."""
        pages = iter(self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix))
        while True:
            with self._asking(f"listing {self.uri}/{prefix}"):
                page = next(pages, None)
            if page is None:
                return
            if "IsTruncated" not in page:  # a web page must not look like an empty folder
                raise RetryableError(f"listing {self.uri}/{prefix}", _NO_LISTING, PROXY_HINT)
            for item in page.get("Contents", []):
                yield StoredObject(item["Key"], item["Size"], item["LastModified"])

    def read(self, key: str) -> Document | None:
        """Read a small object, or ``None`` when there is none."""
        doing = f"reading {self.uri}/{key}"
        with self._asking(doing, key):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if self._says_nothing_is_there(error, key):
                    return None
                raise
            with closing(answer["Body"]) as stream:
                return Document(stream.read(), field_of(answer, "ETag", doing))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to ``length`` bytes from ``start`` on; fewer, or none, where the object ends."""
        if not length:  # a range of no bytes cannot be asked for
            return b""
        wanted = f"bytes={start}-{start + length - 1}"
        doing = f"reading {self.uri}/{key}"
        with self._asking(doing, key):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key, Range=wanted)
            except ClientError as error:
                if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return b""
                raise
            field_of(answer, "ETag", doing)
            with closing(answer["Body"]) as stream:
                return stream.read()

    def write(self, key: str, body: bytes, *, replaces: str | None) -> str:
        """Store a small object in place of the version ``replaces``; a lost answer is found out by reading."""
        return self._documents.write(key, body, replaces)

    def replace(self, path: Path, key: str, *, replaces: str) -> StoredObject:
        """Put the file in place of the version ``replaces``; a lost answer is found out by reading."""
        return self._files.write(key, path, replaces)

    def download(self, key: str, path: Path) -> str:
        """Copy the object into a local file; nothing is left of one that does not arrive whole."""
        doing = f"downloading {self.uri}/{key}"
        with os_translated(doing), self._asking(doing, key):
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            etag = field_of(answer, "ETag", doing)
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
        with self._asking(doing, key):
            try:
                answer = self._client.delete_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if error_code(error) != "NoSuchKey":  # AWS says 204 to that, not every store does
                    raise
                return
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        # Any web page comes with status 200, and few stores say it to this.
        if status != HTTPStatus.NO_CONTENT and any(found.key == key for found in self.list(key)):
            raise RetryableError(doing, f"the answer is {status}, and the object is still there", PROXY_HINT)

    def _put(self, key: str, body: bytes, replaces: Replaces) -> str:
        """Put a small object and return its ETag."""
        return self._sender.send(f"writing {self.uri}/{key}", key, body, replaces).etag

    def _look(self, key: str, body: bytes) -> Seen[str] | None:
        found = self.read(key)
        return Seen(found.etag, found.body == body, found.etag) if found else None

    def _put_file(self, key: str, path: Path, replaces: Replaces) -> StoredObject:
        sent = self._sender.send_file(f"uploading {self.uri}/{key}", key, path, replaces)
        return StoredObject(key, sent.size, sent.at)

    def _look_at_file(self, key: str, path: Path) -> Seen[StoredObject] | None:
        doing = f"reading {self.uri}/{key}"
        with os_translated(doing), self._asking(doing, key):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if self._says_nothing_is_there(error, key):
                    return None
                raise
            with closing(answer["Body"]) as stream:
                is_ours = holds(path, stream.iter_chunks(CHUNK))
            stored = StoredObject(key, path.stat().st_size, answered_at(answer["ResponseMetadata"]["HTTPHeaders"]))
            return Seen(field_of(answer, "ETag", doing), is_ours, stored)

    def _says_nothing_is_there(self, error: ClientError, key: str) -> bool:
        """Whether there is no object. Who may list a part of the bucket alone gets 403 for that, instead of 404."""
        if error_code(error) == "AccessDenied":
            with suppress(FatalError):
                return not any(found.key == key for found in self.list(key))
        return error_code(error) == "NoSuchKey"

    @cached_property
    def _client(self) -> "S3Client":
        """Made at the first use: boto3 asks for a role's keys while it makes one, and that may need a second try."""
        return new_client(self._target, self._max_workers, self._limits, self._question(f"connecting to {self.uri}"))

    def _asking(self, doing: str, key: str = "") -> AbstractContextManager[None]:
        return translated(self._question(doing, key))

    def _question(self, doing: str, key: str = "") -> Question:
        """What is asked, and which keys a right would have to be for: the table's, where this is one of them."""
        return Question(
            doing,
            self._bucket,
            f"{self._prefix}*" if key.startswith(self._prefix) else key,
            self._target.region,
            fixed_token=self._target.session_token is not None,
            key_service=self._encryption.get("ServerSideEncryption") == "aws:kms",
        )

    def _list_one(self, prefix: str) -> "ListObjectsV2OutputTypeDef":
        return self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=1)

    def _create_bucket(self) -> None:
        with self._asking(f"creating the bucket {self.uri}"):
            try:
                # AWS wants any region but its first named; other stores have one region and may refuse a name for it.
                if is_aws(self._target.endpoint_url) and self._target.region != _US_EAST_1:
                    region = cast("BucketLocationConstraintType", self._target.region)
                    self._client.create_bucket(
                        Bucket=self._bucket, CreateBucketConfiguration={"LocationConstraint": region}
                    )
                else:
                    self._client.create_bucket(Bucket=self._bucket)
            except self._client.exceptions.BucketAlreadyOwnedByYou:
                return  # another replica was quicker
        logger.info("Created the bucket %s in region %s", self.uri, self._target.region)

    def _log_other_region(self, answer: "ListObjectsV2OutputTypeDef") -> None:
        """Log that the bucket is in another region: boto3 follows it there, once per client."""
        region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", self._target.region)
        if region != self._target.region:
            logger.warning(
                "%s lies in region %s; set AWS_REGION=%s to reach it without the detour over %s",
                self.uri,
                region,
                region,
                self._target.region,
            )
