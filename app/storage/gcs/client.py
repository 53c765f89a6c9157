"""The client of google-cloud-storage that talks to a bucket: credentials, connections, time-outs, tries."""

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
from requests import PreparedRequest
from requests.adapters import HTTPAdapter

from app.errors import ConfigError

_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_EMULATOR = "STORAGE_EMULATOR_HOST"  # the library's own variable: a server for tests, which asks for no credentials
# For the sake of traces that nobody collects, the library asks what the bucket is like, on a thread of its own. That
# takes a right which writing to the bucket does not need.
_NO_BUCKET_IN_TRACES = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
_KEY = "GCS_CREDENTIALS_JSON"

# Connections above the upload threads: a listing beside them, and one that is just being given back.
_SPARE_CONNECTIONS = 2

# What passes at once is tried again by the library, after up to 1, 2, 4, 4, … s: a second is what Google wants between
# two writes of the same object. What still fails after 10 s the pipeline tries again, and logs it.
RETRY = DEFAULT_RETRY.with_delay(initial=1.0, maximum=4.0, multiplier=2.0).with_timeout(10.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How patient the client is.

    Args:
        timeout: seconds to connect, and between two pieces of an answer.
        retry: how a request is tried again.
    """

    timeout: tuple[float, float] = (10.0, 60.0)
    retry: Retry = RETRY

    def of_request(self) -> dict[str, Any]:
        """The arguments that every request of the library takes."""
        return {"timeout": self.timeout, "retry": self.retry}


LIMITS: Final = Limits()


def new_client(credentials_json: str | None, max_workers: int, doing: str) -> Client:
    """Make a client; nothing is asked of the store yet.

    Args:
        credentials_json: the key of a service account as Google's JSON; ``None``: the default chain of Google's
            libraries (a file, workload identity, the machine's own service account).
        max_workers: how many threads will use it at once; sizes the connection pool.
        doing: what it is made for, for messages.

    Raises:
        ConfigError: a key that is none.
        GoogleAuthError: no credentials anywhere.
    """
    os.environ.setdefault(_NO_BUCKET_IN_TRACES, "true")
    credentials = _credentials(credentials_json, doing)
    session = AuthorizedSession(credentials)
    connections = HTTPAdapter(pool_connections=1, pool_maxsize=max_workers + _SPARE_CONNECTIONS)
    session.mount("https://", connections)
    session.mount("http://", connections)
    session.auth = _as_it_is  # else a .netrc of the user's would replace the token
    return Client(project=None, credentials=credentials, _http=session)


def _as_it_is(request: PreparedRequest) -> PreparedRequest:
    return request


def _credentials(key: str | None, doing: str) -> Credentials:
    if key is None:
        return AnonymousCredentials() if os.environ.get(_EMULATOR) else google.auth.default(scopes=_SCOPES)[0]
    try:
        found: Credentials = service_account.Credentials.from_service_account_info(json.loads(key), scopes=_SCOPES)
    except (ValueError, TypeError, AttributeError):  # a message of these may hold parts of the key
        hint = (
            "Set it to the whole text of the JSON file that Google gives for a service account's key; other "
            "credentials are named by GOOGLE_APPLICATION_CREDENTIALS"
        )
        raise ConfigError(doing, f"{_KEY} holds no service account's key", hint) from None
    return found
