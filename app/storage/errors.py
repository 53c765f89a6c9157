"""Translates errors of the file system and refusals of stores into the connector's errors."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

from app.errors import ConnectorError, FatalError, RetryableError
from app.http_headers import retry_after


class Rule(NamedTuple):
    """The error class and the hint for a store's refusal."""

    error: type[ConnectorError]
    hint: str = ""


PASSES: Final = Rule(RetryableError)
_BUSY: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

_UNAVAILABLE: Final = Rule(RetryableError, "Check that the disk or network share is up")
_NO_RIGHT: Final = Rule(FatalError, "Give the user of this process the right to read and write there")
_NO_FOLDER: Final = Rule(FatalError, "Move this file: the connector needs a folder of this name")
_OF_SYSTEM: Final = {
    # Reasons are a restart of a network file system's server, an unmounted drive, or too many open files. A soft NFS
    # mount returns EIO after a time-out, and ESTALE after the server has lost its state.
    errno.EAGAIN: _UNAVAILABLE,
    errno.EBUSY: _UNAVAILABLE,
    errno.EHOSTDOWN: _UNAVAILABLE,
    errno.EHOSTUNREACH: _UNAVAILABLE,
    errno.EIO: _UNAVAILABLE,
    errno.EMFILE: _UNAVAILABLE,
    errno.ENETDOWN: _UNAVAILABLE,
    errno.ENETUNREACH: _UNAVAILABLE,
    errno.ENFILE: _UNAVAILABLE,
    errno.ENOLCK: _UNAVAILABLE,
    errno.ENOTCONN: _UNAVAILABLE,
    errno.ESTALE: _UNAVAILABLE,
    errno.ETIMEDOUT: _UNAVAILABLE,
    errno.ENOSPC: Rule(RetryableError, "Free some space on that disk"),
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.ENOENT: Rule(
        FatalError, "It was deleted meanwhile, or a variable contains a wrong path; restart once it exists"
    ),
    errno.EEXIST: _NO_FOLDER,
    errno.ENOTDIR: _NO_FOLDER,
    errno.EROFS: Rule(FatalError, "The file system is mounted read-only; mount it writable"),
}


@contextmanager
def os_translated(doing: str) -> Iterator[None]:
    """Translates an ``OSError`` of the ``with`` block to a ``ConnectorError``. All stores use it for local files."""
    try:
        yield
    except OSError as error:
        cause = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror or error)
        rule = _OF_SYSTEM.get(error.errno or 0, Rule(FatalError, "Check the folder and its file system"))
        raise rule.error(doing, cause, rule.hint) from error


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """The rules of a kind of store. ``passing``: retryable statuses besides 408, 429, 5xx. ``lasting``: lasting 5xx."""

    by_name: Mapping[str, Rule]
    passing: frozenset[int] = frozenset()
    lasting: frozenset[int] = frozenset({HTTPStatus.NOT_IMPLEMENTED})

    def error(
        self, name: str, status: int, doing: str, cause: str, hint: str, headers: Mapping[str, str]
    ) -> ConnectorError | None:
        """Returns the error for a refusal; ``None`` without a rule. A retryable status overrides the name's rule.

        ``hint`` is used for a rule without a hint. Names in ``headers`` are in lower case.
        """
        rule = self.by_name.get(name)
        is_server_error = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in self.lasting
        if (is_server_error or status in _BUSY | self.passing) and not (rule and rule.error is RetryableError):
            rule = PASSES
        if rule and rule.error is RetryableError:
            return RetryableError(doing, cause, rule.hint or hint, retry_after=retry_after(headers))
        return rule.error(doing, cause, rule.hint or hint) if rule else None
