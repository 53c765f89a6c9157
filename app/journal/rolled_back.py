"""Deletes the objects of batches that were rolled back, repeatedly: an upload in flight may bring them back.

Deletes at each claim and in regular sweeps, also when nothing is consumed.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.errors import ConnectorError
from app.journal.entry import RolledBack

logger = logging.getLogger(__name__)

_SECONDS = 24 * 3600  # how long an object stays on the list
_EACH_TIME_SECONDS = 3600  # how long each sweep deletes it
_LATEST = 1_000  # objects that each claim deletes again


class RolledBackObjects:
    """Deletes the objects that one log lists as rolled back, each when it is due. Not thread-safe by itself.

    Args:
        delete: deletes one object; one that is not there counts as deleted.
        each: applies a function to every item, like ``map`` and possibly side by side.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        delete: Callable[[str], None],
        each: Callable[[Callable[[str], Any], Iterable[str]], Iterable[Any]],
        now: Callable[[], float],
    ) -> None:
        self._delete = delete
        self._each = each
        self._now = now
        self._next: dict[str, float] = {}  # when to delete again, by key; these are deleted once at least
        self._forgotten: set[str] = set()

    def due(self, listed: Sequence[RolledBack]) -> list[RolledBack]:
        """Those to delete now. The longer ago an object was rolled back, the less often it is due."""
        now = self._now()
        return [item for item in listed if now >= self._next.get(item.key, 0.0)]

    def due_at_claim(self, listed: Sequence[RolledBack]) -> list[RolledBack]:
        """Those to delete at a claim: never deleted, or among the latest thousand. A claim must not wait for all."""
        return [item for item in listed[:-_LATEST] if not item.deleted] + list(listed[-_LATEST:])

    def delete(self, items: Sequence[RolledBack]) -> None:
        """Delete them; may raise the store's errors."""
        now = self._now()
        for _ in self._each(self._delete, [item.key for item in items]):
            pass
        for item in items:
            self._next[item.key] = now + max(0.0, now - item.since - _EACH_TIME_SECONDS) / 2
        self._forgotten |= {item.key for item in items if item.since < now - _SECONDS}

    def still(self, listed: Sequence[RolledBack]) -> tuple[RolledBack, ...]:
        """The list for the next version of the log.

        It omits objects that were deleted after a day or more on the list.
        """
        return tuple(
            item if item.deleted or item.key not in self._next else item.model_copy(update={"deleted": True})
            for item in listed
            if item.key not in self._forgotten
        )


class Sweeper:
    """Deletes them on a thread of its own, because they may be many and the store slow.

    Args:
        delete: one round, for all partitions of this process; may raise the store's errors.
        seconds: between two rounds.
    """

    def __init__(self, delete: Callable[[], None], seconds: float) -> None:
        self._delete = delete
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def start(self) -> None:
        """Begin; the first round comes after the first pause, because claims delete too."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further round."""
        self._stop.set()

    def sweep(self) -> None:
        """One round. Never raises."""
        try:
            self._delete()
        except ConnectorError as error:
            logger.info("%s. The next sweep tries again, in %.0f s", error, self._seconds)
        except Exception as error:
            logger.warning("deleting rolled-back files again: %r. Please report this as a bug", error, exc_info=True)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self.sweep()
