"""Translates errors of Azure's libraries into the connector's own."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Self
from urllib.parse import parse_qsl

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
)
from requests.exceptions import SSLError

from app.container import with_own_address
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, one_line
from app.storage.error_rules import PASSES, ErrorRules, Rule

# What the connector does with objects, by the letters that a shared access signature has for it.
NEEDED = "rcwdl"
NEEDED_WORDS = "read (r), create (c), write (w), delete (d) and list (l)"
ROLE = "Storage Blob Data Contributor"


@dataclass(frozen=True, slots=True)
class Grant:
    """A key, a shared access signature, or an identity of this machine.

    Attributes:
        variable: the setting that holds it, ``None`` for an identity.
        letters: what a signature permits, ``None`` where it does not say so itself, or is none.
        expiry: when a signature ends, as it says it.
        is_signature: whether it is one.
    """

    variable: str | None
    is_signature: bool = False
    letters: str | None = field(default=None)
    expiry: str | None = field(default=None)

    @classmethod
    def of_signature(cls, variable: str, token: str) -> Self:
        """Read the parts of a shared access signature that are no secret."""
        parts: Mapping[str, str] = dict(parse_qsl(token))
        return cls(variable, is_signature=True, letters=parts.get("sp"), expiry=parts.get("se"))

    @property
    def has_expired(self) -> bool:
        """Whether it is a signature whose time is over."""
        try:
            end = datetime.fromisoformat(self.expiry or "")
        except ValueError:  # none, or in a form that only the service understands
            return False
        return (end if end.tzinfo else end.replace(tzinfo=UTC)) < datetime.now(UTC)

    @property
    def missing_letters(self) -> str:
        """What a signature does not permit and the connector needs; empty where nobody can tell from here."""
        return "" if self.letters is None else "".join(letter for letter in NEEDED if letter not in self.letters)

    def wrong(self) -> str:
        """What to do where the service does not know it."""
        if self.variable is None:
            return "Check which identity this machine has, and in which tenant"
        what = "the signature" if self.is_signature else "the key"
        return f"Check {self.variable}: is it {what} of this account, whole and not renewed since?"

    def too_little(self) -> str:
        """What to do where it does not permit enough."""
        if missing := self.missing_letters:
            return (
                f"{self.variable} permits sp={self.letters} and lacks {missing}: set one for the container that "
                f"permits {NEEDED_WORDS}"
            )
        if self.is_signature:
            return f"Set a {self.variable} for the container that permits {NEEDED_WORDS}"
        if self.variable is None:
            return f"Give this machine's identity the role {ROLE} on the container; it takes effect within ten minutes"
        return f"Check {self.variable}"


ADDRESS_HINT = "Check AZURE_STORAGE_ACCOUNT and AZURE_ENDPOINT_URL"

_NAME_HINT = "Name the container in STORAGE_URL with 3 to 63 lower-case letters, digits and single hyphens"
_NETWORK_HINT = (
    "Let this network in: the storage account's firewall (Networking) refuses it, or allows no public access"
)
_RULES = ErrorRules(
    {
        # The service is busy, or got a damaged request: the same request may pass a moment later.
        "AccountBeingCreated": PASSES,
        "BlobOverwritten": PASSES,
        "ConditionNotMet": PASSES,  # of a read: the object was replaced while it was read in pieces
        "ContainerBeingDeleted": PASSES,
        "InternalError": PASSES,
        "InvalidBlobOrBlock": PASSES,  # somebody else stored the object while it was sent in blocks
        "InvalidBlockList": PASSES,
        "Md5Mismatch": PASSES,
        "OperationTimedOut": PASSES,
        "ServerBusy": PASSES,
        "AccountIsDisabled": Rule(FatalError, "The storage account is disabled; ask its owner"),
        "AccountRequiresHttps": Rule(ConfigError, "Set AZURE_ENDPOINT_URL to the https:// address"),
        "AuthorizationProtocolMismatch": Rule(
            FatalError, "The signature is for https:// alone: check AZURE_ENDPOINT_URL"
        ),
        "AuthorizationResourceTypeMismatch": Rule(FatalError, "Set a signature for containers and objects (srt=co)"),
        "AuthorizationServiceMismatch": Rule(FatalError, "Set a signature for the blob service (ss=b)"),
        "AuthorizationSourceIPMismatch": Rule(
            FatalError, "The signature is for other addresses (sip) than this machine's"
        ),
        "BlobImmutableDueToPolicy": Rule(FatalError, "Take the immutability policy or legal hold off the container"),
        "BlobNotFound": Rule(FatalError, "It was deleted meanwhile; restart"),
        "ContainerNotFound": Rule(
            FatalError,
            "Check the container in STORAGE_URL; if it was deleted, create it again and restart",
        ),
        "InvalidResourceName": Rule(ConfigError, _NAME_HINT),
        "KeyBasedAuthenticationNotPermitted": Rule(
            FatalError,
            f"The account allows no keys: take the key out of the settings, and give this machine an identity with the "
            f"role {ROLE}",
        ),
        "LeaseIdMissing": Rule(FatalError, "Somebody holds a lease on it; break the lease"),
    },
    lasting=frozenset({HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED}),
)
_NO_CREDENTIALS = (
    "Set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, "
    f"or give this machine a managed or workload identity with the role {ROLE}"
)
_PROXY_HINT = "Check AZURE_ENDPOINT_URL, and any proxy on the way"
_CLOCK_HINT = "Set this machine's clock (NTP): it is more than 15 minutes off the service's"
_TLS_HINT = (
    "Check http:// or https:// in AZURE_ENDPOINT_URL; for a private authority set REQUESTS_CA_BUNDLE to its file"
)

_DETAILS = ("authenticationerrordetail", "reason", "headername", "queryparametername")
_SIGNED = re.compile(r"MAC signature|string to sign", re.IGNORECASE)  # these quote the signature
_URL = re.compile(r"(?:Max retries exceeded )?with url: \S+|\bsig=[^&\s]+", re.IGNORECASE)
_HOST = re.compile(r"HTTPS?Connection(?:Pool)?\(host='([^']*)', port=(\d+)\)")


_BROKEN = (DecodeError, IncompleteReadError)


class NotAzureError(AzureError):
    """An answer that looks like success and does not come from a blob service."""


@contextmanager
def translated(doing: str, grant: Grant, *, was_authorised: bool) -> Iterator[None]:
    """Raise what the libraries raise inside as a ``ConnectorError``; arguments as for ``translate``."""
    try:
        yield
    except AzureError as error:
        raise translate(error, doing, grant, was_authorised=was_authorised) from None  # its text may hold a signature


def translate(error: AzureError, doing: str, grant: Grant, *, was_authorised: bool) -> ConnectorError:
    """The error as the user is to see it, retryable or not.

    Args:
        error: what ``azure-storage-blob`` or ``azure-identity`` raised.
        doing: what was being done, to which object.
        grant: the credentials.
        was_authorised: whether the service has accepted them before, so that they exist and are right.
    """
    if isinstance(error, NotAzureError):
        return RetryableError(doing, "the answer is not that of Azure Blob Storage", _PROXY_HINT)
    if isinstance(error, HttpResponseError) and error.response is not None and not isinstance(error, _BROKEN):
        return _from_answer(error, doing, grant)
    if isinstance(error, ClientAuthenticationError):
        return _from_credentials(error, doing, grant, was_authorised=was_authorised)
    if isinstance(error, ServiceRequestError | ServiceResponseError):
        return _from_network(error, doing)
    return RetryableError(doing, f"the answer arrived damaged: {_reason(error)}", _PROXY_HINT)


def error_code(error: HttpResponseError) -> str:
    """The service's name for the error, ``BlobNotFound``; empty where the answer has none."""
    code = getattr(error, "error_code", None) or _headers(error).get("x-ms-error-code", "")
    return str(getattr(code, "value", code))


def _headers(error: HttpResponseError) -> Mapping[str, str]:
    """The headers of the answer, their names in lower case."""
    headers: Mapping[str, str] = getattr(error.response, "headers", {})
    return {name.lower(): value for name, value in headers.items()}


def _from_answer(error: HttpResponseError, doing: str, grant: Grant) -> ConnectorError:
    """Errors that the service itself reported."""
    code = error_code(error)
    status = error.status_code or 0
    cause = _cause(error, code, status)
    rule = _RULES.find(code, status)
    if rule is not None:
        return rule.apply(doing, cause, _headers(error), "" if code else _PROXY_HINT)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return _from_refusal(code, doing, cause, grant)
    if "x-ms-version" in cause:
        hint = "The emulator is older than this connector: start it with --skipApiVersionCheck"
        return ConfigError(doing, cause, hint)
    hint = f"Look up {code} in the documentation of Azure Blob Storage" if code else _PROXY_HINT
    return FatalError(doing, cause, hint)


def _from_refusal(code: str, doing: str, cause: str, grant: Grant) -> ConnectorError:
    """Who we are is not known, or not allowed to do this."""
    if "date header too old" in cause.lower():
        return RetryableError(doing, cause, _CLOCK_HINT)  # also what was signed before the machine slept
    if grant.has_expired:
        why = f"{cause}; the signature ended at {grant.expiry}"
        return FatalError(doing, why, f"Set {grant.variable} again, then restart")
    if code in {"AuthorizationPermissionMismatch", "InsufficientAccountPermissions"} or grant.missing_letters:
        return FatalError(doing, cause, grant.too_little())
    if code == "AuthorizationFailure":
        return FatalError(doing, cause, f"{_NETWORK_HINT}. {grant.too_little()}")
    return FatalError(doing, cause, grant.wrong() if code else _PROXY_HINT)


def _from_credentials(
    error: ClientAuthenticationError, doing: str, grant: Grant, *, was_authorised: bool
) -> ConnectorError:
    """Errors from before a request is sent: a key that is none, or no token to be had."""
    if grant.variable is not None:
        return ConfigError(doing, "the account key is not base64", grant.wrong())
    cause = f"no token could be had: {one_line(error.message)}"
    if was_authorised:
        return RetryableError(doing, cause, "Check the identity of this machine if this goes on")
    return ConfigError(doing, cause, _NO_CREDENTIALS)


def _from_network(error: ServiceRequestError | ServiceResponseError, doing: str) -> ConnectorError:
    if isinstance(error.inner_exception, SSLError) and "EOF" not in str(error):
        return FatalError(doing, _reason(error), _TLS_HINT)
    hint = f"{ADDRESS_HINT}, and that the network lets us reach it"
    return RetryableError(doing, _reason(error), with_own_address(hint, str(error)))


def _cause(error: HttpResponseError, code: str, status: int) -> str:
    """The service's message, without the ids of the request and without the parts of a signature that it quotes."""
    if not code:
        return f"HTTP {status}"
    texts = [(error.message or "").partition("\n")[0]]
    details = getattr(error, "additional_info", None) or {}
    texts += [details[name] for name in _DETAILS if details.get(name) and not _SIGNED.search(details[name])]
    return f"{'; '.join(filter(None, map(one_line, texts)))} ({code})"


def _reason(error: AzureError) -> str:
    """The network's message, without the address of the object: that holds the signature."""
    inner = error.inner_exception
    cause = inner.args[0] if inner is not None and inner.args else inner
    reason = getattr(cause, "reason", None) or cause or error.message
    return one_line(_HOST.sub(r"\1:\2", _URL.sub("", str(reason))))
