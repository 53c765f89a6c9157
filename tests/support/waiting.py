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
    """Wait until ``happened`` returns something true; it may raise where that can no longer be."""
    deadline = time.monotonic() + patience
    while not happened():
        if time.monotonic() > deadline:
            raise TookTooLong(f"not within {patience:.0f} s: {what}\n{details()}".rstrip())
        time.sleep(pause)


def wait_for(event: threading.Event, what: str, *, patience: float = PATIENCE) -> None:
    if not event.wait(patience):
        raise TookTooLong(f"not within {patience:.0f} s: {what}")


def join(thread: threading.Thread, *, patience: float = PATIENCE) -> None:
    thread.join(patience)
    if thread.is_alive():
        raise TookTooLong(f"not within {patience:.0f} s: the end of thread {thread.name}")
