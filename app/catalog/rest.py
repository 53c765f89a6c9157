"""JSON over HTTP with a bearer token, and the one place where its errors become the connector's own."""

import json
import os
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any

import requests
from requests.utils import get_environ_proxies

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.http_headers import fits_header, retry_after

# Bytes. A table's description is some kilobytes; of a refusal only the first words are shown.
_ANSWER_LIMIT = 16 << 20
_REFUSAL_LIMIT = 64 << 10
_SHOWN_CHARACTERS = 300

_PASSING_STATUS = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class Answer:
    """What came back for a request that reached the catalog and was let in: 2xx, or a 4xx for the caller to judge."""

    def __init__(self, status: int, reason: str, body: bytes, shown: str) -> None:
        self.status = status
        self.body = body
        self._told = f"the catalog answered {status} {reason}".rstrip() + (f": {shown}" if shown else "")
        self._shown = shown

    def refused(self, doing: str, hint: str) -> FatalError:
        """The answer as an error, in the catalog's own words."""
        return FatalError(doing, self._told, hint)

    def json_object(self, doing: str) -> Mapping[str, Any]:
        """The body as a JSON object.

        Raises:
            FatalError: it is something else: a login page, an empty body.
        """
        try:
            document = json.loads(self.body)
        except ValueError:
            document = None
        if isinstance(document, dict):
            return document
        cause = f"the answer is not a JSON object: {self._shown or 'it is empty'}"
        raise FatalError(doing, cause, "Check that CATALOG_URL is the address of the catalog's API")


class RestClient:
    """One catalog's API; to be used by one thread at a time.

    Args:
        url: base address, without a trailing slash.
        token: bearer token; ``None`` sends none.
        connect_timeout: seconds for a connection to come about.
        read_timeout: seconds between two pieces of an answer.

    Raises:
        ConfigError: a token that cannot be sent.
    """

    def __init__(self, url: str, token: str | None, *, connect_timeout: float, read_timeout: float) -> None:
        if token and not fits_header(token):
            cause = "CATALOG_AUTH_TOKEN holds a blank or another character that no token has"
            raise ConfigError(f"preparing the catalog at {url}", cause, "Set it anew, without quotes and line ends")
        self._url = url
        self._token = token
        self._timeouts = (connect_timeout, read_timeout)
        self._session = requests.Session()
        # With trust_env a netrc file takes the place of our token. It also covers the proxies and the private
        # authorities of companies, so those are taken from where everybody sets them by hand.
        self._session.trust_env = False
        self._session.proxies.update(get_environ_proxies(url, no_proxy=None))
        self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        self._session.headers["Accept"] = "application/json"
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def ask(
        self,
        method: str,
        path: str,
        doing: str,
        body: Mapping[str, Any] | None = None,
        *,
        judged: Collection[int] = (),
    ) -> Answer:
        """Send one request, once.

        Args:
            method: of HTTP.
            path: below the base address, encoded, with a leading slash.
            doing: what this is for, for the user.
            body: sent as JSON.
            judged: statuses that the caller judges, though they are errors else.

        Raises:
            RetryableError: no connection, no answer in time, 408, 425, 429, 5xx.
            FatalError: a redirect, 401, 403, an answer beyond all size, a certificate that is not trusted.
        """
        try:
            with self._session.request(
                method, self._url + path, json=body, timeout=self._timeouts, allow_redirects=False, stream=True
            ) as response:
                return self._judged(response, doing, judged)
        except requests.RequestException as error:
            raise self._translated(error, doing) from error
        except OSError as error:  # what requests says of a bundle that it cannot find
            raise FatalError(doing, str(error), "Check REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE") from error

    def _judged(self, response: requests.Response, doing: str, judged: Collection[int]) -> Answer:
        status = response.status_code
        limit = _ANSWER_LIMIT if response.ok else _REFUSAL_LIMIT
        body = _read(response, limit)
        answer = Answer(status, response.reason or "", body, self._start_of(body))
        if status in judged:
            return answer
        if status in _PASSING_STATUS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            refused = answer.refused(doing, "")
            raise RetryableError(doing, refused.cause, retry_after=retry_after(response.headers))
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            location = response.headers.get("Location", "an address it does not name")
            raise answer.refused(doing, f"It points to {location}: set CATALOG_URL to the address that answers itself")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise answer.refused(doing, "Check CATALOG_AUTH_TOKEN" if self._token else "Set CATALOG_AUTH_TOKEN")
        if response.ok and len(body) > limit:
            raise FatalError(doing, f"the answer is larger than {limit >> 20} MiB", "Check CATALOG_URL")
        return answer

    def _translated(self, error: requests.RequestException, doing: str) -> ConnectorError:
        if isinstance(error, requests.exceptions.SSLError) and "EOF" not in str(error):
            hint = "Check https:// in CATALOG_URL; for a private authority set REQUESTS_CA_BUNDLE to its file"
            return FatalError(doing, _reason(error), hint)
        if isinstance(error, requests.ConnectTimeout):
            return RetryableError(doing, f"no connection within {self._timeouts[0]:g} s", "Check CATALOG_URL")
        if isinstance(error, requests.Timeout):
            return RetryableError(doing, f"no answer within {self._timeouts[1]:g} s")
        if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            return RetryableError(doing, _reason(error), "Check CATALOG_URL, and that the catalog is up")
        return FatalError(doing, _reason(error), "Check CATALOG_URL")

    def _start_of(self, body: bytes) -> str:
        """The first words of a body on one line, without the token should the catalog repeat it."""
        text = body[:_REFUSAL_LIMIT].decode(errors="replace")
        if self._token:
            text = text.replace(self._token, "***")
        text = " ".join(text.split())
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _read(response: requests.Response, limit: int) -> bytes:
    """At most a little more than ``limit`` bytes; what is left unread costs only the connection."""
    body = bytearray()
    for piece in response.iter_content(8192):
        body += piece
        if len(body) > limit:
            break
    return bytes(body)


def _reason(error: BaseException) -> str:
    """The innermost reason: requests wraps urllib3's wrapping of what the system said."""
    causes = (getattr(error, "reason", None), *error.args)
    inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    return _reason(inner) if inner else str(error).rpartition(": ")[2]
