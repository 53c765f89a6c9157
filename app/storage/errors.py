"""How errors of stores become the connector's own: those of the file system, and the rules for refusals of each SDK."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from app.errors import ConnectorError, FatalError, RetryableError
from app.http_headers import retry_after

# A network file system whose server restarts, a drive unmounted for a moment, a burst of open files. A soft NFS mount
# gives EIO after its time-out, and ESTALE once the server has lost its state.
_PASSING = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.EMFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOLCK,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)

_NO_FOLDER = "Move this file away: a folder must be there"
_HINTS = {
    errno.EACCES: "Give the user this process runs as the right to read and write there",
    errno.EPERM: "Give the user this process runs as the right to read and write there",
    errno.ENOENT: "It was deleted meanwhile, or a variable names a wrong path; restart once it is there",
    errno.EEXIST: _NO_FOLDER,
    errno.ENOTDIR: _NO_FOLDER,
    errno.EROFS: "The file system is mounted read-only; mount it writable",
}


@contextmanager
def os_translated(doing: str) -> Iterator[None]:
    """Translates an ``OSError`` raised inside to a ``ConnectorError`` about ``doing``; all stores read local files."""
    try:
        yield
    except OSError as error:
        cause = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror or error)
        if error.errno == errno.ENOSPC:
            raise RetryableError(doing, cause, "Free some space on that disk") from error
        if error.errno in _PASSING:
            raise RetryableError(doing, cause, "Check that the disk or network share is there") from error
        hint = _HINTS.get(error.errno or 0, "Check the folder and its file system")
        raise FatalError(doing, cause, hint) from error


@dataclass(frozen=True, slots=True)
class Rule:
    """The error class for a refusal of a store, and its hint."""

    error: type[ConnectorError]
    hint: str = ""


PASSES: Final = Rule(RetryableError)


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """The rules of one kind of store: ``passing`` statuses beside 5xx, and the 5xx that are ``lasting``."""

    by_name: Mapping[str, Rule]
    passing: frozenset[int] = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
    lasting: frozenset[int] = frozenset({HTTPStatus.NOT_IMPLEMENTED})

    def error(
        self, name: str, status: int, doing: str, cause: str, hint: str, headers: Mapping[str, str]
    ) -> ConnectorError | None:
        """Returns the error for a refusal, or ``None`` without a rule. A retryable status counts before the name.

        ``hint`` is for a rule without one; names in ``headers`` are in lower case.
        """
        rule = self.by_name.get(name)
        is_server_error = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in self.lasting
        if (is_server_error or status in self.passing) and not (rule and rule.error is RetryableError):
            rule = PASSES
        if rule and rule.error is RetryableError:
            return RetryableError(doing, cause, rule.hint or hint, retry_after=retry_after(headers))
        return rule.error(doing, cause, rule.hint or hint) if rule else None
