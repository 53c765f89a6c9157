"""Google Cloud Storage by its own API, through google-cloud-storage: the bucket, and the client for it."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPMethod
from json import JSONDecodeError
from typing import Any, BinaryIO

import google.auth
from google.api_core.exceptions import GoogleAPICallError, NotFound, PreconditionFailed
from google.api_core.retry import Retry
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Blob, Bucket, Client
from google.cloud.storage.retry import DEFAULT_RETRY
from google.oauth2 import service_account
from requests.adapters import HTTPAdapter

from app.errors import ConfigError
from app.parts.gcs.errors import OF_GOOGLE, PROXY_HINT, message_of, translate
from app.storage.base import TIMEOUTS, StoredObject, content_type
from app.storage.cloud_store import CloudStore, Sink, UnexpectedAnswerError
from app.storage.conditional import WHATEVER_IS_THERE, Replaces, Version, changed
from app.storage.targets import GcsTarget

_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_EMULATOR = "STORAGE_EMULATOR_HOST"  # the library's own variable: a server for tests, which asks for no credentials
# For traces the library asks for the bucket's metadata, which needs a further right. Nobody collects these traces.
_NO_BUCKET_IN_TRACES = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"

# The library retries after up to 1, 2, 4, 4, … s: Google wants a second between two writes of the same object.
# After 10 s the pipeline logs the error and retries.
RETRY = DEFAULT_RETRY.with_delay(initial=1.0, maximum=4.0, multiplier=2.0).with_timeout(10.0)
# Bytes per request, and in memory. Larger files go as a resumable upload; readers see it after its last chunk.
# The library sends up to 8 MiB in one request in any case.
_PIECE = 8 << 20
_ABSENT = 0  # Google's generation of a missing object
_LISTED = "kind,nextPageToken,items(name,size,timeCreated)"
_NO_LISTING = "the answer is not the listing of a bucket"


class GcsStore(CloudStore):
    """One bucket. The version of an object is its generation, a number that Google assigns.

    Google's library reads ``STORAGE_EMULATOR_HOST``, the address of a server for tests.
    """

    def __init__(self, target: GcsTarget, *, max_workers: int, retry: Retry = RETRY) -> None:
        super().__init__(target.uri, PROXY_HINT, max_workers)
        self._target = target
        self._asked: dict[str, Any] = {"timeout": TIMEOUTS, "retry": retry}  # of each request

    def _translate(self, error: Exception, doing: str, _key: str, /) -> None:
        if isinstance(error, OF_GOOGLE):
            raise translate(error, doing) from error

    def _pages(self, prefix: str, size: int | None = None) -> Iterator[list[StoredObject]]:
        listing = self._bucket.client.list_blobs(
            self._bucket, prefix=prefix, fields=_LISTED, page_size=size, **self._asked
        )
        try:
            for page in listing.pages:
                if page.raw_page.get("kind") != "storage#objects":
                    raise UnexpectedAnswerError(_NO_LISTING)
                yield [StoredObject(blob.name, blob.size, blob.time_created) for blob in page]
        except (AttributeError, JSONDecodeError) as error:  # the library does not check the answer
            raise UnexpectedAnswerError(_NO_LISTING) from error

    def _fetch(self, key: str, into: Sink, start: int = 0, length: int | None = None) -> Version | None:
        blob = self._bucket.blob(key)
        span = {} if length is None else {"start": start, "end": start + length - 1}
        try:
            blob.download_to_file(into, **span, **self._asked)
        except NotFound as error:
            self._require_bucket(key, error)
            return None
        return _version(blob)

    def _send(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        condition = {} if replaces is WHATEVER_IS_THERE else {"if_generation_match": self._generation_of(replaces, key)}
        blob = self._bucket.blob(key, chunk_size=_PIECE)
        try:
            blob.upload_from_file(body, size=size, content_type=content_type(key), **condition, **self._asked)
        except PreconditionFailed as error:
            raise changed(self.uri, key) from error
        except ValueError as error:  # the store kept a part of a chunk, and the library does not go back
            if isinstance(error, JSONDecodeError):
                raise
            raise UnexpectedAnswerError("the store has not kept all that was sent") from error
        except NotFound as error:
            # Only the chunks of a resumable upload are sent by PUT.
            if error.response is not None and error.response.request.method == HTTPMethod.PUT:
                raise UnexpectedAnswerError("the store has forgotten the upload's beginning") from error
            raise
        return _version(blob)

    def _generation_of(self, replaces: str | None, key: str) -> int:
        if replaces is None:
            return _ABSENT
        if not replaces.isdecimal() or int(replaces) == _ABSENT:  # not a generation
            raise changed(self.uri, key)
        return int(replaces)

    def _remove(self, key: str) -> None:
        try:
            self._bucket.blob(key).delete(**self._asked)
        except NotFound as error:
            self._require_bucket(key, error)

    def _require_bucket(self, key: str, error: GoogleAPICallError) -> None:
        """Raises ``NotFound`` if the bucket is missing, not the object: only the message differs, if there is one."""
        if not message_of(error).startswith("No such object"):
            next(self._pages(key, size=1), None)

    @cached_property
    def _bucket(self) -> Bucket:
        """Makes the client at the first use: a machine's own credentials come over the network."""
        doing = f"connecting to {self.uri}"
        os.environ.setdefault(_NO_BUCKET_IN_TRACES, "true")
        credentials = _credentials(self._target.credentials_json, doing)
        session = AuthorizedSession(credentials)
        connections = HTTPAdapter(pool_connections=1, pool_maxsize=self._connections)
        session.mount("https://", connections)
        session.mount("http://", connections)
        session.auth = lambda request: request  # else a user's .netrc would replace the token
        client = Client(project=None, credentials=credentials, _http=session)
        try:
            return client.bucket(self._target.bucket)
        except ValueError as error:
            raise ConfigError(doing, str(error), "Set STORAGE_URL to gs:// and the name of a bucket") from error


def _version(blob: Blob) -> Version:
    """Returns the object's version. Google always names it; a proxy's page with status 200 does not."""
    if blob.generation is None:
        raise UnexpectedAnswerError("the answer has no generation, so it is not that of a store")
    return Version(str(blob.generation), blob.time_created or datetime.now(UTC))  # shown for uploads, not for reads


def _credentials(key: str | None, doing: str) -> Credentials:
    if key is None:
        return AnonymousCredentials() if os.environ.get(_EMULATOR) else google.auth.default(scopes=_SCOPES)[0]
    try:
        found: Credentials = service_account.Credentials.from_service_account_info(json.loads(key), scopes=_SCOPES)
    except (ValueError, TypeError, AttributeError):  # their messages may hold parts of the key
        hint = (
            "Set it to the whole text of the JSON file that Google gives for a service account's key; other "
            "credentials are named by GOOGLE_APPLICATION_CREDENTIALS"
        )
        raise ConfigError(doing, "GCS_CREDENTIALS_JSON holds no service account's key", hint) from None
    return found
