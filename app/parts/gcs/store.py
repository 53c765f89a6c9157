"""The store for Google Cloud Storage, with the library google-cloud-storage: the bucket, the client, and the errors."""

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPMethod, HTTPStatus
from json import JSONDecodeError
from typing import Any, BinaryIO

import google.auth
import requests
from google.api_core.exceptions import GoogleAPICallError, NotFound, PreconditionFailed, RetryError
from google.api_core.retry import Retry
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Blob, Bucket, Client
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY
from google.oauth2 import service_account
from requests.adapters import HTTPAdapter

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, cut, last_words, one_line
from app.storage.base import TIMEOUTS, StoredObject, content_type
from app.storage.cloud_store import CloudStore, MissingBucketError, Sink, UnexpectedAnswerError
from app.storage.conditional import WHATEVER_IS_THERE, Replaces, Version, changed
from app.storage.errors import PASSES, ErrorRules, Rule
from app.storage.targets import GcsTarget

PROXY_HINT = "Check STORAGE_URL, and any proxy on the way"
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_EMULATOR = "STORAGE_EMULATOR_HOST"  # a variable of the library: the address of a test server
# Disables traces of the library. For traces, the library reads the bucket's metadata, which needs another right.
_NO_BUCKET_IN_TRACES = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"

# The library retries after at most 1, 2, 4, 4, … s. Google allows only one write of an object per second. After 10 s,
# the pipeline logs the error and retries.
RETRY = DEFAULT_RETRY.with_delay(initial=1.0, maximum=4.0, multiplier=2.0).with_timeout(10.0)
# Bytes per request, and in memory. Larger files are sent as resumable uploads. Readers see a file after the last chunk.
# The library always sends files of up to 8 MiB in one request.
_PIECE = 8 << 20
_ABSENT = 0  # the generation that means: the object must not exist
_LISTED = "kind,nextPageToken,items(name,size,timeCreated)"
_NO_LISTING = "the answer is not the listing of a bucket"

_CREDENTIALS_HINT = (
    "Set GCS_CREDENTIALS_JSON to the text of a service account's key or GOOGLE_APPLICATION_CREDENTIALS to its file, "
    "or give the machine a service account; check that the account and its key exist and are enabled"
)
_SHOWN_CHARACTERS = 300

OF_GOOGLE = (
    ConnectionError,  # Python's class, which the library raises if a download is interrupted
    DataCorruption,
    GoogleAPICallError,
    GoogleAuthError,
    InvalidResponse,
    RetryError,
    requests.RequestException,
)
_PERMISSION = re.compile(r"\bstorage\.[a-zA-Z]+\.[a-zA-Z]+")
_CLOCK = "short-lived token"  # in Google's message about a token with a wrong time

# The keys are reasons in Google's answers, or words in messages.
_RULES = ErrorRules(
    {
        "rateLimitExceeded": PASSES,
        "userRateLimitExceeded": PASSES,
        "quotaExceeded": PASSES,
        "retention": Rule(
            FatalError,
            "The connector replaces its journal and deletes files of failed batches: remove the retention policy, lock "
            "or hold from the bucket",
        ),
    },
    # 308: a resumable upload is incomplete. 409: another request writes the object. 410: the session of a resumable
    # upload has expired, and the upload must begin again.
    passing=frozenset({HTTPStatus.PERMANENT_REDIRECT, HTTPStatus.CONFLICT, HTTPStatus.GONE}),
)


class GcsStore(CloudStore):
    """A store for one bucket. The version of an object is the generation, a number that Google assigns.

    If ``STORAGE_EMULATOR_HOST`` is set, Google's library uses the test server at this address.
    """

    def __init__(self, target: GcsTarget, *, max_workers: int, retry: Retry = RETRY) -> None:
        super().__init__(target.uri, PROXY_HINT, max_workers)
        self._target = target
        self._options: dict[str, Any] = {"timeout": TIMEOUTS, "retry": retry}  # options of each request

    def _translate(self, error: Exception, doing: str, _key: str, /) -> None:
        if isinstance(error, OF_GOOGLE):
            raise translate(error, doing) from error

    def _pages(self, prefix: str, size: int | None = None) -> Iterator[list[StoredObject]]:
        listing = self._bucket.client.list_blobs(
            self._bucket, prefix=prefix, fields=_LISTED, page_size=size, **self._options
        )
        try:
            for page in listing.pages:
                if page.raw_page.get("kind") != "storage#objects":
                    raise UnexpectedAnswerError(_NO_LISTING)
                yield [StoredObject(blob.name, blob.size, blob.time_created) for blob in page]
        except (AttributeError, JSONDecodeError) as error:  # the library does not check the answer's form
            raise UnexpectedAnswerError(_NO_LISTING) from error

    def _fetch(self, key: str, into: Sink, start: int = 0, length: int | None = None) -> Version | None:
        blob = self._bucket.blob(key)
        span = {} if length is None else {"start": start, "end": start + length - 1}
        try:
            blob.download_to_file(into, **span, **self._options)
        except NotFound as error:
            self._require_bucket(key, error)
            return None
        return _version(blob)

    def _send(self, key: str, body: BinaryIO, size: int, replaces: Replaces) -> Version:
        condition = {} if replaces is WHATEVER_IS_THERE else {"if_generation_match": self._generation_of(replaces, key)}
        blob = self._bucket.blob(key, chunk_size=_PIECE)
        try:
            blob.upload_from_file(body, size=size, content_type=content_type(key), **condition, **self._options)
        except PreconditionFailed as error:
            raise changed(self.uri, key) from error
        except ValueError as error:  # the store has kept only a part of a chunk
            if isinstance(error, JSONDecodeError):
                raise
            raise UnexpectedAnswerError("the store has not kept all bytes that were sent") from error
        except NotFound as error:
            # The library sends only chunks of a resumable upload with PUT.
            if error.response is not None and error.response.request.method == HTTPMethod.PUT:
                raise UnexpectedAnswerError("the store has forgotten the upload's beginning") from error
            raise
        return _version(blob)

    def _generation_of(self, replaces: str | None, key: str) -> int:
        if replaces is None:
            return _ABSENT
        if not replaces.isdecimal() or int(replaces) == _ABSENT:  # not a valid generation
            raise changed(self.uri, key)
        return int(replaces)

    def _remove(self, key: str) -> None:
        try:
            self._bucket.blob(key).delete(**self._options)
        except NotFound as error:
            self._require_bucket(key, error)

    def _require_bucket(self, key: str, error: GoogleAPICallError) -> None:
        """Raise ``NotFound`` if the bucket is missing. Only the message distinguishes a missing bucket and object."""
        message = _texts_of(error.response)[0] if error.response is not None else ""
        if not message.startswith("No such object"):
            next(self._pages(key, size=1), None)

    @cached_property
    def _bucket(self) -> Bucket:
        """Create the client at the first use, because reading a machine's credentials needs the network."""
        doing = f"connecting to {self.uri}"
        os.environ.setdefault(_NO_BUCKET_IN_TRACES, "true")
        credentials = _credentials(self._target.credentials_json, doing)
        session = AuthorizedSession(credentials)
        connections = HTTPAdapter(pool_connections=1, pool_maxsize=self._connections)
        session.mount("https://", connections)
        session.mount("http://", connections)
        session.auth = lambda request: request  # otherwise a user's .netrc would replace the token
        client = Client(project=None, credentials=credentials, _http=session)
        try:
            return client.bucket(self._target.bucket)
        except ValueError as error:
            raise ConfigError(doing, str(error), "Set STORAGE_URL to gs:// and the name of a bucket") from error


def _version(blob: Blob) -> Version:
    """Return the object's version. Raise an error if the version is missing, because a proxy has answered."""
    if blob.generation is None:
        raise UnexpectedAnswerError("the answer has no generation, so it does not come from the store")
    return Version(str(blob.generation), blob.time_created or datetime.now(UTC))  # only an upload returns its time


def _credentials(key: str | None, doing: str) -> Credentials:
    if key is None:
        return AnonymousCredentials() if os.environ.get(_EMULATOR) else google.auth.default(scopes=_SCOPES)[0]
    try:
        parsed: Credentials = service_account.Credentials.from_service_account_info(json.loads(key), scopes=_SCOPES)
    except (ValueError, TypeError, AttributeError):  # the error's message may contain parts of the private key
        hint = (
            "Set it to the complete text of Google's JSON file for a service account's key; for other credentials, "
            "set GOOGLE_APPLICATION_CREDENTIALS"
        )
        raise ConfigError(doing, "GCS_CREDENTIALS_JSON is not the key of a service account", hint) from None
    return parsed


def translate(error: BaseException, doing: str) -> ConnectorError:
    if isinstance(error, RetryError):  # the library stopped retrying
        if not isinstance(error.cause, OF_GOOGLE):
            return RetryableError(doing, _plain(str(error.cause or error)))
        error = error.cause
    if isinstance(error, ConnectionError):
        return RetryableError(doing, _plain(str(error)))
    if isinstance(error, DataCorruption):
        return RetryableError(doing, "the bytes arrived damaged: their checksum is wrong")
    if isinstance(error, GoogleAPICallError | InvalidResponse) and error.response is not None:
        try:
            return _from_answer(error.response, doing)
        except requests.RequestException as interrupted:  # the library did not read the body of a 5xx
            return _from_network(interrupted, doing)
    if isinstance(error, GoogleAuthError):
        return _from_credentials(error, doing)
    if isinstance(error, requests.RequestException):
        return _from_network(error, doing)
    return FatalError(doing, _plain(str(error)), "Check STORAGE_URL and the credentials")


def _from_answer(response: requests.Response, doing: str) -> ConnectorError:
    status = response.status_code
    message, reason = _texts_of(response)
    cause = f"{message} ({reason or f'HTTP {status}'})" if message else f"HTTP {status}"
    words = next((each for each in _RULES.by_name if each in reason or each in message), "")
    if error := _RULES.error(words, status, doing, cause, "" if message else PROXY_HINT, response.headers):
        return error
    if status == HTTPStatus.NOT_FOUND:  # callers handle a missing object separately
        return MissingBucketError(doing, cause, "Check STORAGE_URL; create the bucket, then restart")
    if status == HTTPStatus.UNAUTHORIZED:
        return FatalError(doing, cause, _CREDENTIALS_HINT)
    if status == HTTPStatus.FORBIDDEN:
        permission = _PERMISSION.search(message)
        hint = f"Grant {permission.group() if permission else 'access'} on the bucket to this account"
        return FatalError(doing, cause, f"{hint}: the role Storage Object User has all necessary rights")
    return FatalError(doing, cause, PROXY_HINT)


def _texts_of(response: requests.Response) -> tuple[str, str]:
    """Return the message and the reason in a refusal. The body is JSON, or a line of text for a download."""
    try:
        error = response.json()["error"]
        details = error.get("errors") or [{}]
        return _plain(str(error.get("message", ""))), str(details[0].get("reason", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        text = _plain(response.text)
        return ("", "") if text.startswith("<") else (text, "")  # a web page is not from Google


def _from_credentials(error: GoogleAuthError, doing: str) -> ConnectorError:
    first = error.args[0] if error.args else error
    if isinstance(error, DefaultCredentialsError):
        return ConfigError(doing, _plain(str(first)), _CREDENTIALS_HINT)
    network = next((each for each in (error, first) if isinstance(each, TransportError)), None)
    if network is not None:
        hint = "Check the network to Google's token service, or to the machine's metadata server"
        return RetryableError(doing, f"no token was received: {_reason(network)}", hint)
    cause = f"no token was issued: {_plain(str(first))}"
    if error.retryable or _CLOCK in cause:
        return RetryableError(doing, cause, "Synchronise this machine's clock (NTP)" if _CLOCK in cause else "")
    return FatalError(doing, cause, _CREDENTIALS_HINT)


def _from_network(error: requests.RequestException, doing: str) -> ConnectorError:
    if isinstance(error, requests.exceptions.SSLError) and "EOF" not in str(error):
        return FatalError(doing, _reason(error), "For a private authority, set REQUESTS_CA_BUNDLE to its file")
    if isinstance(error, requests.exceptions.InvalidJSONError):
        return RetryableError(doing, "the answer does not come from Google", PROXY_HINT)
    if isinstance(error, requests.ConnectionError | requests.Timeout | requests.exceptions.ChunkedEncodingError):
        return RetryableError(doing, _reason(error), "Check the network to storage.googleapis.com")
    return ConfigError(doing, _reason(error), "Check STORAGE_EMULATOR_HOST and the proxy variables")


def _reason(error: BaseException) -> str:
    return _plain(last_words(error))


def _plain(message: str) -> str:
    """Return the message as one short line without a full stop, for use inside a sentence."""
    return cut(one_line(message), _SHOWN_CHARACTERS)
