"""Translates errors of Azure's libraries into the connector's errors."""

import re
from dataclasses import dataclass
from http import HTTPStatus

from azure.core import exceptions as azure
from requests.exceptions import SSLError

from app.container import with_own_address
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, last_words, one_line
from app.storage.cloud_store import MissingBucketError
from app.storage.errors import PASSES, ErrorRules, Rule
from app.storage.targets import AzureTarget

PROXY_HINT = "Check AZURE_ENDPOINT_URL, and any proxy on the way"
_ADDRESS_HINT = "Check AZURE_STORAGE_ACCOUNT and AZURE_ENDPOINT_URL"
_ROLE = "Storage Blob Data Contributor"
_NO_CREDENTIALS = (
    "Set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, "
    f"or give this machine a managed or workload identity with the role {_ROLE}"
)
_CLOCK_HINT = "Synchronise this machine's clock (NTP): it differs from the service's by more than 15 minutes"
_TLS_HINT = (
    "Check http:// or https:// in AZURE_ENDPOINT_URL; for a private authority, set REQUESTS_CA_BUNDLE to its file"
)

_RULES = ErrorRules(
    {
        # The service is busy, or has received a damaged request. A retry may succeed, as after a 5xx.
        "AccountBeingCreated": PASSES,
        "BlobOverwritten": PASSES,
        "ConditionNotMet": PASSES,  # during a download, the object was replaced
        "ContainerBeingDeleted": PASSES,
        "InvalidBlobOrBlock": PASSES,  # another writer has stored the object meanwhile
        "InvalidBlockList": PASSES,
        "Md5Mismatch": PASSES,
        "ContainerNotFound": Rule(
            MissingBucketError, f"Check STORAGE_URL; create the container, then restart. {_ADDRESS_HINT}"
        ),
        "KeyBasedAuthenticationNotPermitted": Rule(
            FatalError,
            f"The account does not allow keys: remove the key from the settings, and give this machine an identity "
            f"with the role {_ROLE}",
        ),
    },
    lasting=frozenset({HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED}),
)

_DETAILS = ("authenticationerrordetail", "reason", "headername", "queryparametername")
_SIGNED = re.compile(r"MAC signature|string to sign", re.IGNORECASE)  # such messages contain the signature
_URL = re.compile(r"(?:Max retries exceeded )?with url: \S+|\bsig=[^&\s]+", re.IGNORECASE)
_HOST = re.compile(r"HTTPS?Connection(?:Pool)?\(host='([^']*)', port=(\d+)\)")
_BROKEN = (azure.DecodeError, azure.IncompleteReadError)


@dataclass(frozen=True, slots=True)
class Access:
    """Hints about the credentials (key, signature or identity), for refused credentials and for missing rights."""

    if_wrong: str
    if_too_little: str
    is_identity: bool = False


def access_of(target: AzureTarget) -> Access:
    """Return the hints for the credentials of a container. Hints contain no secrets."""
    variable = "AZURE_STORAGE_CONNECTION_STRING" if target.connection_string else "AZURE_STORAGE_SAS_TOKEN"
    if target.sas_token or "SharedAccessSignature=" in (target.connection_string or ""):
        return Access(
            f"Check {variable}: is its signature complete, of this account, and not expired?",
            f"Set {variable} with a signature that permits read, create, write, delete and list (sp=rcwdl)",
        )
    if target.key or target.connection_string:
        variable = "AZURE_STORAGE_KEY" if target.key else variable
        return Access(
            f"Check {variable}: is the key complete, of this account, and not rotated since?", f"Check {variable}"
        )
    return Access(
        "Check which identity this machine has, and in which tenant",
        f"Give this machine's identity the role {_ROLE} on the container; it takes effect within ten minutes",
        is_identity=True,
    )


def error_code(error: azure.HttpResponseError) -> str:
    """Return the error code in the service's answer, such as ``BlobNotFound``; empty if the answer has no code."""
    code = getattr(error, "error_code", None) or getattr(error.response, "headers", {}).get("x-ms-error-code", "")
    return str(getattr(code, "value", code))


def translate(error: azure.AzureError, doing: str, access: Access, *, was_authorised: bool) -> ConnectorError:
    """Return the connector's error. ``was_authorised`` is true if the service has accepted the credentials before."""
    if isinstance(error, azure.HttpResponseError) and error.response is not None and not isinstance(error, _BROKEN):
        return _from_answer(error, doing, access)
    if isinstance(error, azure.ClientAuthenticationError):
        return _from_credentials(error, doing, access, was_authorised=was_authorised)
    if isinstance(error, azure.ServiceRequestError | azure.ServiceResponseError):
        if isinstance(error.inner_exception, SSLError) and "EOF" not in str(error):
            return FatalError(doing, _reason(error), _TLS_HINT)
        hint = f"{_ADDRESS_HINT}, and the network"
        return RetryableError(doing, _reason(error), with_own_address(hint, str(error)))
    return RetryableError(doing, f"the answer arrived damaged: {_reason(error)}", PROXY_HINT)


def _from_answer(error: azure.HttpResponseError, doing: str, access: Access) -> ConnectorError:
    code = error_code(error)
    status = error.status_code or 0
    cause = _cause(error, code, status)
    headers = getattr(error.response, "headers", {})
    if by_rule := _RULES.error(code, status, doing, cause, "" if code else PROXY_HINT, headers):
        return by_rule
    if not code:
        return FatalError(doing, cause, PROXY_HINT)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return _from_refusal(code, doing, cause, access)
    return FatalError(doing, cause, f"Check STORAGE_URL; look up {code} in the documentation of Azure Blob Storage")


def _from_refusal(code: str, doing: str, cause: str, access: Access) -> ConnectorError:
    if "date header too old" in cause.lower():
        return RetryableError(doing, cause, _CLOCK_HINT)  # a wrong clock, or the machine slept after signing
    if code in {"AuthorizationPermissionMismatch", "InsufficientAccountPermissions"}:
        return FatalError(doing, cause, access.if_too_little)
    if code == "AuthorizationFailure":
        network = (
            "Allow this network: the storage account's firewall (Networking) refuses it, or allows no public access"
        )
        return FatalError(doing, cause, f"{network}. {access.if_too_little}")
    return FatalError(doing, cause, access.if_wrong)


def _from_credentials(
    error: azure.ClientAuthenticationError, doing: str, access: Access, *, was_authorised: bool
) -> ConnectorError:
    """Translate an error that occurred before the request was sent: a malformed access key, or a missing token."""
    if not access.is_identity:
        return ConfigError(doing, "the account key is not base64", access.if_wrong)
    cause = f"no token was received: {one_line(error.message)}"
    if was_authorised:
        return RetryableError(doing, cause, "If this continues, check the identity of this machine")
    return ConfigError(doing, cause, _NO_CREDENTIALS)


def _cause(error: azure.HttpResponseError, code: str, status: int) -> str:
    """Return the service's message without request ids and without parts of a signature."""
    if not code:
        return f"HTTP {status}"
    texts = [(error.message or "").partition("\n")[0]]
    details = getattr(error, "additional_info", None) or {}
    texts += [details[name] for name in _DETAILS if details.get(name) and not _SIGNED.search(details[name])]
    return f"{'; '.join(filter(None, map(one_line, texts)))} ({code})"


def _reason(error: azure.AzureError) -> str:
    """Return the message of a network error without the object's address, because the address contains a signature."""
    if error.inner_exception is None:
        return one_line(_URL.sub("", error.message))
    host, words = _HOST.search(str(error)), _URL.sub("", last_words(error.inner_exception))
    return f"{host[1]}:{host[2]}: {words}" if host else words
