"""Translates errors of the file system into the connector's own; all stores read local files."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import FatalError, RetryableError

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

_HINTS = {
    errno.EACCES: "Give the user this process runs as the right to read and write there",
    errno.EPERM: "Give the user this process runs as the right to read and write there",
    errno.ENOENT: "It was deleted meanwhile, or a variable names a wrong path; restart once it is there",
    errno.EROFS: "The file system is mounted read-only; mount it writable",
}


@contextmanager
def os_translated(doing: str) -> Iterator[None]:
    """Translates an ``OSError`` raised inside to a ``ConnectorError`` about ``doing``."""
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
