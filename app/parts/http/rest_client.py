"""Sends JSON requests over HTTP with a bearer token or a password, and translates errors."""

import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import requests
from requests.utils import get_environ_proxies
from urllib3.exceptions import HTTPError, NewConnectionError

from app.catalog.base import NotTakenError
from app.container import with_own_address
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, innermost, last_words
from app.http_headers import fits_header, retry_after
from app.json_texts import check_json
from app.redaction import add_login, add_secrets, redact

# Maximum sizes in bytes. A table's description has some kilobytes. Error messages show only the start of a refusal.
_ANSWER_LIMIT = 16 << 20
REFUSAL_LIMIT = 64 << 10
_SHOWN_CHARACTERS = 300
_PIECE = 64 << 10

_BUSY = frozenset({HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, slots=True)
class Service:
    """The name of a service for messages, and the environment variables with the service's address and login."""

    name: str
    url_variable: str
    token_variable: str
    ca_variable: str = "REQUESTS_CA_BUNDLE"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The login: a token, or a user with a password, and the files of a client certificate and its private key.

    ``ca`` is a file of CA certificates for the server's certificate; ``None`` means the system's CA certificates.
    """

    token: str | None = None
    user: str | None = None
    password: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def authorization(self) -> str | None:
        """The HTTP header ``Authorization``; ``None`` without a login."""
        if self.token:
            return f"Bearer {self.token}"
        if self.user is None:
            return None
        return "Basic " + base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Patience:
    """Time-outs in seconds: for connecting, between two reads of an answer, and for the complete answer."""

    connect: float
    read: float
    whole: float


class Answer:
    """The answer to a request: 2xx, or a 4xx or 501 that the caller must handle.

    ``summary`` describes the answer in error messages, with the start of the service's message.
    """

    def __init__(self, service: Service, status: int, reason: str, body: bytes, shown: str) -> None:
        self.status = status
        self.body = body
        self.summary = f"{service.name} answered {status} {reason}".rstrip() + (f": {shown}" if shown else "")
        self._service = service
        self._shown = shown

    def json_object(self, doing: str) -> Mapping[str, Any]:
        """Return the body as a JSON object.

        Raises:
            FatalError: The body is not a JSON object, but for example a login page.
        """
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            return document
        cause = f"the answer is not a JSON object: {self._shown or 'it is empty'}"
        hint = f"Check that {self._service.url_variable} is the address of {self._service.name}'s API"
        raise FatalError(doing, cause, hint)


class RestClient:
    """A client for a service's API. Only one thread may use a client. ``url`` has no slash at the end."""

    def __init__(self, service: Service, url: str, credentials: Credentials) -> None:
        token = credentials.token
        if token and not fits_header(token):
            cause = f"{service.token_variable} contains a blank or another character that is not allowed in a token"
            raise ConfigError(f"preparing {service.name} at {url}", cause, "Set it again, without quotes and line ends")
        self._service = service
        self._url = url
        self._session = requests.Session()
        # With trust_env, a netrc file would replace the token. Without trust_env, requests ignores the variables for
        # proxies and CA certificates, so this class reads these variables.
        self._session.trust_env = False
        self._session.proxies.update(get_environ_proxies(url, no_proxy=None))
        of_machine = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        self._session.verify = credentials.ca or of_machine or True
        if credentials.certificate and credentials.key:
            self._session.cert = credentials.certificate, credentials.key
        self._session.headers["Accept"] = "application/json"
        # Compression is refused, because a small compressed answer may need too much memory.
        self._session.headers["Accept-Encoding"] = "identity"
        if credentials.authorization:
            self._session.headers["Authorization"] = credentials.authorization
            add_secrets(credentials.token, credentials.password)
            add_login(credentials.authorization)

    def ask(
        self, method: str, path: str, doing: str, body: Mapping[str, Any] | None = None, *, patience: Patience
    ) -> Answer:
        """Send a request once, without retries.

        ``path`` begins with a slash, is encoded, and is added to ``url``. ``doing`` is the purpose, for messages.

        Raises:
            NotTakenError: No connection, 425, 429.
            RetryableError: No answer in time, 408, 5xx except 501.
            FatalError: A redirect, 401, 403, an answer that is too large, a certificate that is not trusted.
        """
        deadline = time.monotonic() + patience.whole
        try:
            with self._session.request(
                method,
                self._url + path,
                json=body,
                timeout=(patience.connect, patience.read),
                allow_redirects=False,
                stream=True,
            ) as response:
                limit = _ANSWER_LIMIT if response.ok else REFUSAL_LIMIT
                return self._to_answer(response, read_answer(response, limit, deadline), limit, doing)
        except requests.RequestException as error:
            raise self._translate(error, doing, patience) from error
        except HTTPError as error:  # urllib3's error while the body is read
            raise RetryableError(doing, f"the answer was interrupted: {last_words(error)}") from error
        except TimeoutError:
            raise RetryableError(doing, f"the answer was not complete within {patience.whole:g} s") from None
        except OSError as error:  # requests raises this error if the CA bundle is missing
            variables = dict.fromkeys([self._service.ca_variable, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
            raise FatalError(doing, str(error), f"Check {', '.join(variables)}") from error

    def _to_answer(self, response: requests.Response, body: bytes, limit: int, doing: str) -> Answer:
        status = response.status_code
        # The start of the answer on one line. Secrets that the service repeats are redacted.
        shown = " ".join(redact(body[:REFUSAL_LIMIT].decode(errors="replace")).split())[:_SHOWN_CHARACTERS]
        answer = Answer(self._service, status, response.reason or "", body, shown)
        if status in _BUSY:
            raise NotTakenError(doing, answer.summary, retry_after=retry_after(response.headers))
        is_server_error = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
        if status == HTTPStatus.REQUEST_TIMEOUT or is_server_error:
            raise RetryableError(doing, answer.summary, retry_after=retry_after(response.headers))
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            location = response.headers.get("Location", "an unknown address")
            hint = f"Set {self._service.url_variable} to the final address; this address redirects to {location}"
            raise FatalError(doing, answer.summary, hint)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            verb = "Check" if "Authorization" in self._session.headers else "Set"
            raise FatalError(doing, answer.summary, f"{verb} {self._service.token_variable}")
        if response.ok:
            check_answer(body, limit, doing, self._service.url_variable)
        return answer

    def _translate(self, error: requests.RequestException, doing: str, patience: Patience) -> ConnectorError:
        variable = self._service.url_variable
        if isinstance(error, requests.exceptions.SSLError) and "EOF" not in str(error):
            hint = f"Check https:// in {variable}; for a private authority set {self._service.ca_variable} to its file"
            return FatalError(doing, last_words(error), hint)
        if isinstance(error, requests.ConnectTimeout):
            return NotTakenError(doing, f"no connection within {patience.connect:g} s", f"Check {variable}")
        if isinstance(error, requests.Timeout):
            return RetryableError(doing, f"no answer within {patience.read:g} s")
        if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            kind = NotTakenError if isinstance(innermost(error), NewConnectionError) else RetryableError
            hint = with_own_address(f"Check {variable}, and that {self._service.name} is up", self._url)
            return kind(doing, last_words(error), hint)
        return FatalError(doing, last_words(error), f"Check {variable}")


def check_answer(body: bytes, limit: int, doing: str, url_variable: str) -> bytes:
    """Return ``body``. Raise ``FatalError`` if parsing this JSON would need too much memory."""
    try:
        return check_json(body, limit)
    except ValueError as error:
        cause = f"the answer is too large: {error}"
    raise FatalError(doing, cause, f"Check {url_variable}")


def read_answer(response: requests.Response, limit: int, deadline: float) -> bytes:
    """Read at most slightly more than ``limit`` bytes of the answer. After unread bytes, the connection is closed.

    Bytes are read as they arrive, because a slow server may send single bytes.

    Raises:
        TimeoutError: The answer is incomplete at the ``deadline`` (monotonic seconds).
    """
    body = bytearray()
    try:
        while len(body) <= limit and (piece := response.raw.read1(_PIECE, decode_content=True)):
            body += piece
            if time.monotonic() > deadline:
                raise TimeoutError
        return bytes(body)
    finally:
        body.clear()  # otherwise an error's traceback keeps the body in memory
