"""Amazon S3, and every store with the protocol of S3, through boto3."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, Literal, cast

from botocore.exceptions import ClientError
from s3transfer.utils import ReadFileChunk

from app.errors import ConnectorError, FatalError
from app.storage.base import CHUNK, ChangedError, StoredObject, content_type
from app.storage.cloud_store import CloudStore, MissingBucketError, Sink, UnexpectedAnswerError
from app.storage.conditional import WHATEVER_IS_THERE, NoConditionsError, Replaces, Version, changed
from app.storage.s3.client import LIMITS, Limits, new_client
from app.storage.s3.errors import PROXY_HINT, error_code, status_of, translate
from app.storage.targets import S3Target

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

logger = logging.getLogger(__name__)

_MOST_DELETED: Final = 1_000  # S3's limit for one request
_MOST_PARTS: Final = 10_000  # S3's limit for one upload
_PARTS_STAY = "%s. Parts of failed uploads stay in the store until a lifecycle rule of the bucket deletes them"
_NOT_IN_PARTS = (
    "%s ignores conditions of multipart uploads. The connector deletes files of rolled-back batches repeatedly "
    "instead: their rows may be duplicated for up to ten minutes after a crash"
)


class S3Store(CloudStore):
    """One bucket of an S3 store.

    botocore uses path style (``http://host/bucket/key``) for a custom endpoint. For AWS, it uses virtual-host style if
    the bucket's name contains no dots. An ``addressing_style`` in the AWS configuration overrides the style.

    If ``sse`` is missing, the bucket's setting decides on encryption. If ``sse_kms_key_id`` is missing, ``aws:kms``
    uses the account's default key.
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
        super().__init__(target.uri, PROXY_HINT, max_workers)
        self._target = target
        self._bucket = target.bucket
        self._limits = limits
        encryption = {"ServerSideEncryption": sse, "SSEKMSKeyId": sse_kms_key_id}
        self._encryption: dict[str, Any] = {name: value for name, value in encryption.items() if value}

    def _create_bucket(self, missing: MissingBucketError) -> None:
        if not self._target.may_create:
            super()._create_bucket(missing)
        with self._doing("creating the bucket"), suppress(self._client.exceptions.BucketAlreadyOwnedByYou):
            self._client.create_bucket(Bucket=self._bucket)  # another replica may have created the bucket
            logger.info("Created the bucket %s", self.uri)

    def _pages(self, prefix: str, size: int | None = None) -> Iterator[list[StoredObject]]:
        paginator = self._client.get_paginator("list_objects_v2")
        for page in paginator.paginate(
            Bucket=self._bucket, Prefix=prefix, PaginationConfig={"PageSize": size} if size else {}
        ):
            # A web page must not look like an empty folder, and an old store's first page not like a complete listing.
            if "IsTruncated" not in page or (page["IsTruncated"] and "NextContinuationToken" not in page):
                raise UnexpectedAnswerError("the answer is not the listing of a bucket")
            yield [StoredObject(item["Key"], item["Size"], item["LastModified"]) for item in page.get("Contents", [])]

    def _fetch(self, key: str, into: Sink, start: int = 0, length: int | None = None) -> Version | None:
        try:
            if length is None:
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
            else:
                span = f"bytes={start}-{start + length - 1}"
                answer = self._client.get_object(Bucket=self._bucket, Key=key, Range=span)
        except ClientError as error:
            if self._is_missing(error, key):
                return None
            raise
        version = _version(answer)
        with closing(answer["Body"]) as stream:
            for chunk in stream.iter_chunks(CHUNK):
                into.write(chunk)
        return version

    def _is_missing(self, error: ClientError, key: str) -> bool:
        """Whether the object is missing. Without the right to list the bucket, S3 answers 403 instead of 404."""
        if error_code(error) == "AccessDenied":
            with suppress(FatalError), self._named("listing", key):  # this thread already has a connection
                return not any(each.key == key for page in self._pages(key) for each in page)
        return error_code(error) == "NoSuchKey"

    def _send(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        with self._checking_condition(key, replaces):
            if size > self._limits.largest_single:
                return self._send_in_parts(key, body, size, replaces)
            answer = self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=body,
                ContentType=content_type(key),
                **self._encryption,
                **_condition(replaces),
            )
            return _version(answer)

    def _send_in_parts(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        begun = self._client.create_multipart_upload(
            Bucket=self._bucket, Key=key, ContentType=content_type(key), **self._encryption
        )
        upload = _field(begun, "UploadId")
        try:
            parts = self._send_parts(key, body, size, upload)
            answer = self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, **_condition(replaces)
            )
            return _version(answer)
        except BaseException:
            self._abort(key, upload)
            raise

    def _send_parts(self, key: str, body: BinaryIO, size: int, upload: str) -> "list[CompletedPartTypeDef]":
        length = max(self._limits.part_bytes, -(-size // _MOST_PARTS))
        parts: list[CompletedPartTypeDef] = []
        for number, start in enumerate(range(0, size, length), start=1):
            body.seek(start)
            chunk = cast("IO[bytes]", ReadFileChunk(body, length, size))
            answer = self._client.upload_part(
                Bucket=self._bucket, Key=key, UploadId=upload, PartNumber=number, Body=chunk
            )
            part: CompletedPartTypeDef = {"PartNumber": number, "ETag": _field(answer, "ETag")}
            if "ChecksumCRC32" in answer:  # the completion must repeat the checksum that boto3 added
                part["ChecksumCRC32"] = answer["ChecksumCRC32"]
            parts.append(part)
        return parts

    def _abort(self, key: str, upload: str) -> None:
        """Aborts a multipart upload. Errors are not raised, because an earlier error is more important."""
        try:
            # If the upload is missing, it was completed, and the answer was lost.
            with self._named("aborting the upload of", key), suppress(self._client.exceptions.NoSuchUpload):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)
        except ConnectorError as error:
            logger.warning(_PARTS_STAY, error)

    def _probe(self, key: str) -> bool:
        has_conditions = super()._probe(key)
        has_them_in_parts = self._refuses_parts(key)
        if has_conditions and not has_them_in_parts:
            logger.warning(_NOT_IN_PARTS, self.uri)
        return has_conditions and has_them_in_parts

    def _refuses_parts(self, key: str) -> bool:
        """Tries a multipart upload, and aborts it, because remaining parts would cost money."""
        try:
            with self._doing("uploading in parts to", key), self._checking_condition(key, None):
                self._send_in_parts(key, BytesIO(b"{}"), 2, None)
        except (ChangedError, NoConditionsError) as refused:
            return isinstance(refused, ChangedError)
        return False

    def _remove(self, key: str) -> None:
        try:
            answer = self._client.delete_object(Bucket=self._bucket, Key=key)
        except self._client.exceptions.NoSuchKey:  # AWS answers 204 here; other stores may raise this error
            return
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        # A web page has status 200. Few stores answer a deletion with status 200.
        if status != HTTPStatus.NO_CONTENT and any(each.key == key for page in self._pages(key) for each in page):
            raise UnexpectedAnswerError(f"the answer is {status}, and the object is still there")

    def delete_many(self, keys: Sequence[str]) -> None:
        """Deletes objects, a thousand per request. Objects that this request does not delete are deleted one by one."""
        for first in range(0, len(keys), _MOST_DELETED):
            portion = refused = keys[first : first + _MOST_DELETED]
            with self._doing("deleting objects of"), suppress(ClientError):
                answer = self._client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in portion], "Quiet": True}
                )
                refused = [error["Key"] for error in answer.get("Errors", [])]
            for key in refused:
                self.delete(key)

    @cached_property
    def _client(self) -> "S3Client":
        """The client. It is created at the first use, because boto3 then requests a role's keys, which may fail."""
        return new_client(self._target, self._connections, self._limits)

    def _translate(self, error: Exception, doing: str, key: str, /) -> None:
        keys = f"{self._prefix}*" if key.startswith(self._prefix) else key  # for messages about a missing right
        fixed_token, lent = self._target.session_token is not None, self._target.lend is not None
        if translated := translate(error, doing, self._bucket, keys, fixed_token=fixed_token, lent=lent):
            raise translated from error

    @contextmanager
    def _checking_condition(self, key: str, replaces: Replaces) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            if replaces is WHATEVER_IS_THERE:
                raise
            # ``If-Match`` on a missing object returns "no such key".
            if status_of(error) == HTTPStatus.PRECONDITION_FAILED or error_code(error) == "NoSuchKey":
                raise changed(self.uri, key) from error
            if status_of(error) == HTTPStatus.NOT_IMPLEMENTED:
                raise NoConditionsError from error
            raise


def _condition(replaces: Replaces) -> dict[str, Any]:
    if replaces is WHATEVER_IS_THERE:
        return {}
    return {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}


def _version(answer: Mapping[str, Any]) -> Version:
    """Returns the version in the answer, with the store's time. If the answer contains no time, uses this machine's."""
    try:
        at = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")).astimezone(UTC)
    except ValueError:
        at = datetime.now(UTC)
    return Version(_field(answer, "ETag"), at)


def _field(answer: Mapping[str, Any], name: str) -> str:
    """Returns a field that every S3 answer of this kind contains. A web page does not contain this field."""
    if name not in answer:
        raise UnexpectedAnswerError(f"the answer has no {name}, so it is not from a store")
    return str(answer[name])
