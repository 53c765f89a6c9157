"""Ownership without logs: the generation that is current may write."""

from collections.abc import Callable, Mapping, Sequence

from app.journal.log import Intent
from app.model import Mark, TopicPartition


class OpenOwnership:
    """What the pipeline sees of ``app.journal.ownership.JournalOwnership``.

    Args:
        is_current: whether the generation with this token is current.

    Attributes:
        ends: how far was read, where no row came.
    """

    def __init__(self, is_current: Callable[[str], bool]) -> None:
        self._is_current = is_current
        self.ends: dict[TopicPartition, int] = {}

    def is_owner(self, token: str) -> bool:
        return self._is_current(token)

    def intend(self, token: str, intent: Intent) -> bool:
        return self._is_current(token)

    def marks(self, token: str) -> Sequence[Mark]:
        return ()

    def confirm(self, token: str) -> bool:
        return self._is_current(token)

    def registered(self, token: str, batch: int) -> None:
        """Nothing to note down."""

    def advance(self, token: str, ends: Mapping[TopicPartition, int]) -> None:
        if self._is_current(token):
            self.ends |= ends

    def abandon(self) -> None:
        """Nothing was announced."""

    def done(self) -> None:
        """Nothing to note down."""
