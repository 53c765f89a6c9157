"""Claims of partitions that come through at once, for tests of what happens around them."""

from collections.abc import Collection

from app.journal.claims import Claim

from app.journal.start_offset import Start
from app.model import TopicPartition


class InstantClaims:
    """Every partition begins at offset 0, unless told otherwise; ``held_back`` ones wait until they are taken out."""

    def __init__(self) -> None:
        self.starts: dict[TopicPartition, Start] = {}
        self.held_back: set[TopicPartition] = set()
        self.made_anew: set[str] = set()
        self.closed: list[str | None] = []  # of each claim, why it was made again
        self._begun: dict[TopicPartition, str] = {}

    def begin(self, tps: Collection[TopicPartition], token: str, closed: str | None = None) -> None:
        self.closed.append(closed)
        self._begun |= dict.fromkeys(tps, token)

    def finished(self) -> list[Claim]:
        through = [tp for tp in self._begun if tp not in self.held_back]
        return [Claim(tp, self._begun.pop(tp), self.starts.get(tp, Start(0))) for tp in through]

    def is_same_topic(self, tp: TopicPartition) -> bool:
        return tp.topic not in self.made_anew

    def check(self) -> None:
        """All is as it was."""
