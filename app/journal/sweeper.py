"""Deletes rolled-back files again from time to time, whether or not anything is consumed: an upload may land late."""

import logging
import threading
from typing import Protocol

from app.errors import ConnectorError

logger = logging.getLogger(__name__)


class Sweepable(Protocol):
    """``app.journal.ownership.JournalOwnership`` in production."""

    def delete_revoked(self) -> None: ...


class Sweeper:
    """A thread of its own, for the files may be many and the store slow.

    Args:
        ownership: of the assignments of this process.
        seconds: between two rounds.
    """

    def __init__(self, ownership: Sweepable, seconds: float) -> None:
        self._ownership = ownership
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def start(self) -> None:
        """Begin; the first round is after the first pause, for claims delete what they find."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no other round."""
        self._stop.set()

    def sweep(self) -> None:
        """One round. Never raises."""
        try:
            self._ownership.delete_revoked()
        except ConnectorError as error:
            logger.info("%s. The next sweep tries again, in %.0f s", error, self._seconds)
        except Exception as error:
            logger.warning("deleting rolled-back files again: %r. Please report this as a bug", error, exc_info=True)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self.sweep()
