"""Translates errors of Google's libraries into the connector's own."""

import re
from http import HTTPStatus

import requests
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, cut, last_words, one_line
from app.storage.cloud_store import MissingBucketError
from app.storage.errors import PASSES, ErrorRules, Rule

PROXY_HINT = "Check STORAGE_URL, and any proxy on the way"
_CREDENTIALS_HINT = (
    "Set GCS_CREDENTIALS_JSON to the text of a service account's key or GOOGLE_APPLICATION_CREDENTIALS to its file, "
    "or give the machine a service account; check that account and key exist and are enabled"
)
_SHOWN_CHARACTERS = 300

OF_GOOGLE = (
    ConnectionError,  # Python's own: the library raises it for an interrupted download
    DataCorruption,
    GoogleAPICallError,
    GoogleAuthError,
    InvalidResponse,
    RetryError,
    requests.RequestException,
)
_PERMISSION = re.compile(r"\bstorage\.[a-zA-Z]+\.[a-zA-Z]+")
_CLOCK = "short-lived token"  # in Google's message about a signature from the future or long ago

# By an answer's reason, or by words of its message.
_RULES = ErrorRules(
    {
        "object mutation operations": Rule(
            RetryableError,
            "Google takes about one write of the same object a second: raise COMMIT_INTERVAL if this goes on",
        ),
        "rateLimitExceeded": PASSES,
        "userRateLimitExceeded": PASSES,
        "quotaExceeded": PASSES,
        "retention": Rule(
            FatalError,
            "The connector replaces its journal and deletes files of failed batches: take the retention policy, lock "
            "or hold off the bucket",
        ),
    },
    # 308: a resumable upload is incomplete. 409: another request writes the object. 410: the session of a resumable
    # upload is gone, so it begins again.
    passing=frozenset({HTTPStatus.PERMANENT_REDIRECT, HTTPStatus.CONFLICT, HTTPStatus.GONE}),
)


def translate(error: BaseException, doing: str) -> ConnectorError:
    if isinstance(error, RetryError):  # the library's own tries are used up
        if not isinstance(error.cause, OF_GOOGLE):
            return RetryableError(doing, _plain(str(error.cause or error)))
        error = error.cause
    if isinstance(error, ConnectionError):
        return RetryableError(doing, _plain(str(error)))
    if isinstance(error, DataCorruption):
        return RetryableError(doing, "the bytes arrived damaged: their checksum is another one")
    if isinstance(error, GoogleAPICallError | InvalidResponse) and error.response is not None:
        try:
            return _from_answer(error.response, doing)
        except requests.RequestException as cut_off:  # the library has not read the body of a 5xx
            return _from_network(cut_off, doing)
    if isinstance(error, GoogleAuthError):
        return _from_credentials(error, doing)
    if isinstance(error, requests.RequestException):
        return _from_network(error, doing)
    return FatalError(doing, _plain(str(error)), "Check STORAGE_URL and the credentials")


def message_of(error: GoogleAPICallError | InvalidResponse) -> str:
    """Returns the message of a refusal; empty where the answer has no message of Google."""
    return _said(error.response)[0] if error.response is not None else ""


def _from_answer(response: requests.Response, doing: str) -> ConnectorError:
    """Translates errors that the store itself reported."""
    status = response.status_code
    message, reason = _said(response)
    cause = f"{message} ({reason or f'HTTP {status}'})" if message else f"HTTP {status}"
    words = next((each for each in _RULES.by_name if each in reason or each in message), "")
    if error := _RULES.error(words, status, doing, cause, "" if message else PROXY_HINT, response.headers):
        return error
    if status == HTTPStatus.NOT_FOUND:  # a missing object is handled by the callers
        return MissingBucketError(doing, cause, "Check STORAGE_URL; create the bucket, then restart")
    if status == HTTPStatus.UNAUTHORIZED:
        return FatalError(doing, cause, _CREDENTIALS_HINT)
    if status == HTTPStatus.FORBIDDEN:
        named = _PERMISSION.search(message)
        hint = f"Grant {named.group() if named else 'access'} on the bucket to this account"
        return FatalError(doing, cause, f"{hint}: the role Storage Object User has all rights that are needed")
    return FatalError(doing, cause, PROXY_HINT)


def _said(response: requests.Response) -> tuple[str, str]:
    """Returns message and reason of a refusal: a JSON document, or a line of text for a download."""
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
        hint = "Check that the network lets us reach Google's token service, or the machine's metadata server"
        return RetryableError(doing, f"no token came: {_reason(network)}", hint)
    cause = f"no token was given: {_plain(str(first))}"
    if error.retryable or _CLOCK in cause:
        return RetryableError(doing, cause, "Set this machine's clock (NTP)" if _CLOCK in cause else "")
    return FatalError(doing, cause, _CREDENTIALS_HINT)


def _from_network(error: requests.RequestException, doing: str) -> ConnectorError:
    if isinstance(error, requests.exceptions.SSLError) and "EOF" not in str(error):
        return FatalError(doing, _reason(error), "For a private authority set REQUESTS_CA_BUNDLE to its file")
    if isinstance(error, requests.exceptions.InvalidJSONError):
        return RetryableError(doing, "the answer is not Google's", PROXY_HINT)
    if isinstance(error, requests.ConnectionError | requests.Timeout | requests.exceptions.ChunkedEncodingError):
        return RetryableError(doing, _reason(error), "Check that the network lets us reach storage.googleapis.com")
    return ConfigError(doing, _reason(error), "Check STORAGE_EMULATOR_HOST and the proxy variables")


def _reason(error: BaseException) -> str:
    return _plain(last_words(error))


def _plain(message: str) -> str:
    """Makes one line of bounded length without a full stop, for use inside a sentence."""
    return cut(one_line(message), _SHOWN_CHARACTERS)
