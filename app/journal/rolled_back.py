"""Deletes the objects of batches that were rolled back, again and again: an upload under way may bring them back."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.journal.entry import Revoked

_SECONDS = 24 * 3600  # that an object stays on the list
_EACH_TIME_SECONDS = 3600  # for so long it is deleted with each sweep
_LATEST = 1_000  # objects that each claim deletes again


class Revocations:
    """What is known of the deletions of one journal's revoked objects. Not safe from several threads by itself.

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

    def due(self, revoked: Sequence[Revoked]) -> list[Revoked]:
        """Those to delete now. The longer ago one was revoked, the less likely it comes back, and the less often."""
        now = self._now()
        return [item for item in revoked if now >= self._next.get(item.key, 0.0)]

    def due_at_claim(self, revoked: Sequence[Revoked]) -> list[Revoked]:
        """Those that may be there when their rows come again; however long a list is, a claim does not wait for all."""
        return [item for item in revoked[:-_LATEST] if not item.deleted] + list(revoked[-_LATEST:])

    def delete(self, items: Sequence[Revoked]) -> None:
        """Delete them; may raise the store's errors."""
        now = self._now()
        for _ in self._each(self._delete, [item.key for item in items]):
            pass
        for item in items:
            self._next[item.key] = now + max(0.0, now - item.since - _EACH_TIME_SECONDS) / 2
        self._forgotten |= {item.key for item in items if item.since < now - _SECONDS}

    def still(self, revoked: Sequence[Revoked]) -> tuple[Revoked, ...]:
        """The list for the next version of the entry.

        Without what was deleted when it had been on it for a day, however long nobody was there to do so.
        """
        return tuple(
            item if item.deleted or item.key not in self._next else item.model_copy(update={"deleted": True})
            for item in revoked
            if item.key not in self._forgotten
        )
