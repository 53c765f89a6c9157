"""The client of google-cloud-storage for a bucket: credentials, connections, time-outs, retries."""

import json
import os
from dataclasses import dataclass
from typing import Any, Final

import google.auth
from google.api_core.retry import Retry
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client
from google.cloud.storage.retry import DEFAULT_RETRY
from google.oauth2 import service_account
from requests.adapters import HTTPAdapter

from app.errors import ConfigError
from app.storage.base import SPARE_CONNECTIONS

_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_EMULATOR = "STORAGE_EMULATOR_HOST"  # the library's own variable: a server for tests, which asks for no credentials
# For traces the library asks for the bucket's metadata, which needs a further right. Nobody collects these traces.
_NO_BUCKET_IN_TRACES = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
_KEY = "GCS_CREDENTIALS_JSON"

# The library retries after up to 1, 2, 4, 4, … s: Google wants a second between two writes of the same object.
# After 10 s the pipeline logs the error and retries.
RETRY = DEFAULT_RETRY.with_delay(initial=1.0, maximum=4.0, multiplier=2.0).with_timeout(10.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Time-outs in seconds (to connect, and between two chunks of an answer), and the library's retry policy."""

    timeout: tuple[float, float] = (10.0, 60.0)
    retry: Retry = RETRY

    def of_request(self) -> dict[str, Any]:
        """Returns the arguments for every request of the library."""
        return {"timeout": self.timeout, "retry": self.retry}


LIMITS: Final = Limits()


def new_client(credentials_json: str | None, max_workers: int, doing: str) -> Client:
    """Makes a client without a request to the store; ``max_workers`` sizes the connection pool.

    Without ``credentials_json``, the key of a service account, Google's libraries take their default chain: a file,
    workload identity, the machine's own service account. A malformed key is a ``ConfigError``.
    """
    os.environ.setdefault(_NO_BUCKET_IN_TRACES, "true")
    credentials = _credentials(credentials_json, doing)
    session = AuthorizedSession(credentials)
    connections = HTTPAdapter(pool_connections=1, pool_maxsize=max_workers + SPARE_CONNECTIONS)
    session.mount("https://", connections)
    session.mount("http://", connections)
    session.auth = lambda request: request  # else a user's .netrc would replace the token
    return Client(project=None, credentials=credentials, _http=session)


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
        raise ConfigError(doing, f"{_KEY} holds no service account's key", hint) from None
    return found
