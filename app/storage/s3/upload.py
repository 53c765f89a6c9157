"""Uploads objects: small ones in one request, big files in parts."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypedDict, cast

from botocore.exceptions import ClientError
from s3transfer.utils import ReadFileChunk

from app.errors import ConnectorError, RetryableError
from app.storage.base import ChangedError, content_type
from app.storage.conditional import WHATEVER_IS_THERE, NoConditionsError, Replaces
from app.storage.os_errors import os_translated
from app.storage.s3.client import Limits
from app.storage.s3.errors import PROXY_HINT, error_code, status_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        CompleteMultipartUploadOutputTypeDef,
        PutObjectOutputTypeDef,
    )

    _Stored = PutObjectOutputTypeDef | CompleteMultipartUploadOutputTypeDef

logger = logging.getLogger(__name__)

_MOST_PARTS: Final = 10_000  # of one upload, says S3
_PARTS_STAY = "%s. Parts of uploads that failed stay in the store, until a rule of the bucket removes them"


class Encryption(TypedDict, total=False):
    """The encryption to ask for, under boto3's names; empty: none."""

    ServerSideEncryption: Literal["AES256", "aws:kms"]
    SSEKMSKeyId: str


class _Condition(TypedDict, total=False):
    """The condition of a request, under boto3's names; empty: none."""

    IfMatch: str
    IfNoneMatch: str


@dataclass(frozen=True, slots=True)
class Sent:
    """An object that is stored: its version, its size in bytes, and when."""

    etag: str
    size: int
    at: datetime


class Sender:
    """Puts objects into a bucket; each is there for readers as a whole or not at all.

    Args:
        client: gives boto3's client.
        bucket: the bucket's name.
        asking: translates errors of what is done inside, given what that is and the key.
        encryption: goes with every object.
        limits: how large its requests are.
    """

    def __init__(
        self,
        client: "Callable[[], S3Client]",
        bucket: str,
        asking: Callable[[str, str], AbstractContextManager[None]],
        encryption: Encryption,
        limits: Limits,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._asking = asking
        self._encryption = encryption
        self._limits = limits

    def send(self, doing: str, key: str, body: bytes, replaces: Replaces) -> Sent:
        """Put a small object in place of that version.

        Raises:
            ChangedError: something else is there.
            NoConditionsError: the store answers that it does not know conditions.
        """
        return self._put(doing, key, body, len(body), replaces)

    def send_file(self, doing: str, key: str, path: Path, replaces: Replaces) -> Sent:
        """Put a file in place of that version; errors as for ``send``."""
        with os_translated(doing), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > self._limits.largest_single:
                return self._send_in_parts(doing, key, path, size, replaces)
            return self._put(doing, key, file, size, replaces)

    def refuses_parts(self, key: str) -> bool:
        """Whether an upload in parts is refused where an object is; the upload is then given up.

        Warns if uploads may not be given up: parts of failed ones would stay, and be paid for.

        Args:
            key: of an object that is there; a store that does not refuse replaces it.
        """
        with NamedTemporaryFile() as file:
            file.write(b"{}")
            file.flush()
            try:
                self._send_in_parts(f"writing s3://{self._bucket}/{key} in parts", key, Path(file.name), 2, None)
            except ChangedError:
                return True
            except NoConditionsError:
                return False
        return False

    def _put(self, doing: str, key: str, body: bytes | BinaryIO, size: int, replaces: Replaces) -> Sent:
        with self._asking(doing, key), _conditions_heeded(f"s3://{self._bucket}/{key}", replaces):
            answer = self._client().put_object(
                Bucket=self._bucket,
                Key=key,
                Body=body,
                ContentType=content_type(key),
                **self._encryption,
                **_condition(replaces),
            )
        return _sent(answer, size, doing)

    def _send_in_parts(self, doing: str, key: str, path: Path, size: int, replaces: Replaces) -> Sent:
        with self._asking(doing, key):
            begun = self._client().create_multipart_upload(
                Bucket=self._bucket, Key=key, ContentType=content_type(key), **self._encryption
            )
            upload = field_of(begun, "UploadId", doing)
            try:
                parts = self._send_parts(doing, key, path, size, upload)
                with _conditions_heeded(f"s3://{self._bucket}/{key}", replaces):
                    answer = self._client().complete_multipart_upload(
                        Bucket=self._bucket,
                        Key=key,
                        UploadId=upload,
                        MultipartUpload={"Parts": parts},
                        **_condition(replaces),
                    )
                return _sent(answer, size, doing)
            except BaseException:
                self._abort(key, upload)
                raise

    def _send_parts(self, doing: str, key: str, path: Path, size: int, upload: str) -> "list[CompletedPartTypeDef]":
        length = max(self._limits.part_bytes, -(-size // _MOST_PARTS))
        parts: list[CompletedPartTypeDef] = []
        for number, start in enumerate(range(0, size, length), start=1):
            with ReadFileChunk.from_filename(str(path), start, length) as body:
                answer = self._client().upload_part(
                    Bucket=self._bucket, Key=key, UploadId=upload, PartNumber=number, Body=cast("IO[bytes]", body)
                )
            part: CompletedPartTypeDef = {"PartNumber": number, "ETag": field_of(answer, "ETag", doing)}
            if "ChecksumCRC32" in answer:  # what boto3 has sent along must be named again
                part["ChecksumCRC32"] = answer["ChecksumCRC32"]
            parts.append(part)
        return parts

    def _abort(self, key: str, upload: str) -> None:
        """Give an upload in parts up. What led to it is more important than what comes of this."""
        doing = f"giving up the upload of s3://{self._bucket}/{key}"
        try:
            with self._asking(doing, key):
                try:
                    self._client().abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)
                except ClientError as error:
                    if error_code(error) != "NoSuchUpload":  # it was completed, and only the answer got lost
                        raise
        except ConnectorError as error:
            logger.warning(_PARTS_STAY, error)


@contextmanager
def _conditions_heeded(uri: str, replaces: Replaces) -> Iterator[None]:
    """Translate a condition that failed, or that the store does not know."""
    try:
        yield
    except ClientError as error:
        if replaces is WHATEVER_IS_THERE:
            raise
        if _says_changed(error):
            raise ChangedError(f"{uri} is not the version that was to be replaced") from error
        if status_of(error) == HTTPStatus.NOT_IMPLEMENTED:
            raise NoConditionsError from error
        raise


def _says_changed(error: ClientError) -> bool:
    """Whether a condition failed; ``If-Match`` on an object that is gone gives "no such key"."""
    return status_of(error) == HTTPStatus.PRECONDITION_FAILED or error_code(error) == "NoSuchKey"


def _condition(replaces: Replaces) -> _Condition:
    if replaces is WHATEVER_IS_THERE:
        return {}
    return {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}


def _sent(answer: "_Stored", size: int, doing: str) -> Sent:
    etag = field_of(answer, "ETag", doing)
    return Sent(etag, size, answered_at(answer["ResponseMetadata"]["HTTPHeaders"]))


def answered_at(headers: Mapping[str, str]) -> datetime:
    """The store's clock where it shows one, else ours."""
    try:
        return parsedate_to_datetime(headers.get("date", "")).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)


def field_of(answer: Mapping[str, Any], name: str, doing: str) -> str:
    """What every S3 says in this answer.

    Raises:
        RetryableError: it is not there. A proxy's page with status 200 neither stores nor is what was stored.
    """
    if name not in answer:
        raise RetryableError(doing, f"the answer has no {name}, so it is not that of a store", PROXY_HINT)
    return str(answer[name])
