"""The one way in which tests wait for something that happens in another thread, process or system.

Each wait has a deadline that a busy machine keeps. A wait that reaches it raises ``TookTooLong``: the only error after
which ``make test`` runs a test once more, because it alone may come from the machine.
"""

import threading
import time
from collections.abc import Callable

PATIENCE = 600.0  # seconds
_PAUSE = 0.01


class TookTooLong(Exception):  # noqa: N818 - it reads as what happened
    """What a test waits for did not happen before the deadline."""


def wait_until(
    happened: Callable[[], object],
    what: str,
    *,
    patience: float = PATIENCE,
    pause: float = _PAUSE,
    details: Callable[[], str] = str,
) -> None:
    """Wait until ``happened`` returns something true.

    Args:
        happened: asked again and again; it may raise where what is waited for can no longer happen.
        what: what is waited for; for the error.
        patience, pause: seconds.
        details: more text for the error, such as the end of a log.

    Raises:
        TookTooLong: it did not happen in time.
    """
    deadline = time.monotonic() + patience
    while not happened():
        if time.monotonic() > deadline:
            raise TookTooLong(f"not within {patience:.0f} s: {what}\n{details()}".rstrip())
        time.sleep(pause)


def wait_for(event: threading.Event, what: str, *, patience: float = PATIENCE) -> None:
    """Wait until the event is set.

    Raises:
        TookTooLong: it was not set in time.
    """
    if not event.wait(patience):
        raise TookTooLong(f"not within {patience:.0f} s: {what}")


def join(thread: threading.Thread, *, patience: float = PATIENCE) -> None:
    """Wait until the thread has ended.

    Raises:
        TookTooLong: it had not ended in time.
    """
    thread.join(patience)
    if thread.is_alive():
        raise TookTooLong(f"not within {patience:.0f} s: the end of thread {thread.name}")
