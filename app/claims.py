"""Claims the journals of newly assigned partitions, away from the consumer's thread, and finds where each begins.

An assignment's callback may neither wait for a store that is away (the broker would take the consumer for dead) nor
fail. So partitions are paused there, and resumed by the consumer's loop once their claim is through.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol

from app.custody import ByJournal
from app.errors import ConnectorError, FatalError, RetryableError
from app.journal import Journal
from app.journal_entry import JournaledFile, JournalEntry
from app.journal_object import FencedError
from app.metrics import Metrics
from app.model import TopicPartition
from app.retry import Stopped, until_it_works
from app.start_position import KafkaPosition, Start, start_of

logger = logging.getLogger(__name__)

_ADVANCE_SECONDS = 60.0


class Positions(Protocol):
    """What Kafka says of a topic-partition; see ``app.positions``."""

    def of(self, tp: TopicPartition) -> KafkaPosition: ...
    def topic_id(self, topic: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition whose journal is ours, with the first offset to consume."""

    tp: TopicPartition
    token: str
    start: Start


class Claims:
    """Claims side by side, each until it works or the assignment ends.

    Args:
        new_journal: makes the journal of a topic-partition for the assignment with this token.
        custody: keeps the claimed journals; ``None`` for at-least-once delivery: a journal that is found is then
            settled and switched off, and none is begun.
        positions: asks Kafka.
        register: makes files of a former owner's batch known to the catalog.
        stands: whether the assignment with this token stands.
        reset: where a group without an offset begins.
        keeps_state: whether ``transform()`` keeps state, or repartitions.
        prefer_committed: whether the group's offset counts more than the journal, the first time that a partition is
            claimed. Later it may be behind the journal for other reasons than a user's hand.
        workers: claims at the same time.
        metrics: told of each try that failed.
    """

    def __init__(
        self,
        *,
        new_journal: Callable[[TopicPartition, str], Journal],
        custody: ByJournal | None,
        positions: Positions,
        register: Callable[[Sequence[JournaledFile]], None],
        stands: Callable[[str], bool],
        reset: Literal["earliest", "latest"],
        prefer_committed: bool,
        keeps_state: bool,
        workers: int,
        metrics: Metrics | None = None,
    ) -> None:
        self._new_journal = new_journal
        self._custody = custody
        self._positions = positions
        self._register = register
        self._stands = stands
        self._reset: Literal["earliest", "latest"] = reset
        self._prefer_committed = prefer_committed
        self._keeps_state = keeps_state
        self._metrics = metrics or Metrics()
        self._topic_ids: dict[TopicPartition, str] = {}  # of all that were ever claimed
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="claim")
        self._stop = threading.Event()
        self._advanced_at = time.monotonic()
        self._through: queue.SimpleQueue[Claim | ConnectorError] = queue.SimpleQueue()

    def begin(self, tokens: Mapping[TopicPartition, str]) -> None:
        """Begin to claim these partitions for the assignments with these tokens."""
        for tp, token in tokens.items():
            self._pool.submit(self._claim, tp, token)

    def finished(self) -> list[Claim]:
        """The claims that came through since the last call, of assignments that still stand.

        Raises:
            ConnectorError: a claim failed for good.
        """
        claims: list[Claim] = []
        while True:
            try:
                item = self._through.get_nowait()
            except queue.Empty:
                return claims
            if isinstance(item, ConnectorError):
                raise item
            if self._stands(item.token):
                claims.append(item)

    def is_same_topic(self, tp: TopicPartition) -> bool | None:
        """Whether the topic is the one that was there when this partition was claimed; ``None`` if Kafka tells not."""
        topic_id, before = self._positions.topic_id(tp.topic), self._topic_ids.get(tp)
        return topic_id == before if topic_id and before else None

    def advance(self, ends: Mapping[str, int]) -> None:
        """The offsets up to these, by the token of the assignment, are committed. Never raises, and does not wait.

        Rows filtered out are in no batch: without this, a restart would read them again from the last batch on. Now and
        then is enough for that.
        """
        now = time.monotonic()
        if self._custody and now - self._advanced_at >= _ADVANCE_SECONDS:
            self._advanced_at = now
            self._pool.submit(self._advance, self._custody, ends)

    def stop(self) -> None:
        """Give up the claims under way, once nothing asks for custody any more."""
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._custody:
            self._custody.stop()

    # --- on threads of the pool -------------------------------------------------------------------------------------

    def _advance(self, custody: ByJournal, ends: Mapping[str, int]) -> None:
        try:
            custody.advance(ends)
        except ConnectorError as error:
            logger.debug("%s. It is tried again after a later commit", error)
        except Exception as error:
            logger.warning("bringing the journals up to date: %r. Please report this as a bug", error, exc_info=True)

    def _claim(self, tp: TopicPartition, token: str) -> None:
        try:
            journal = self._new_journal(tp, token)
            start = until_it_works(
                lambda: self._start_of(tp, token, journal),
                stop=self._stop,
                on_wait=lambda error: self._raise_if_ended(token, error),
                clock=time.monotonic,
            )
            if self._custody:
                self._custody.take(token, journal)
            self._through.put(Claim(tp, token, start))
        except Stopped:
            pass
        except FencedError as error:
            if self._stands(token):
                self._through.put(RetryableError(f"claiming {tp}", str(error), _RESTART))
        except ConnectorError as error:
            self._through.put(error)
        except Exception as error:
            logger.debug("claiming failed", exc_info=True)
            self._through.put(FatalError(f"claiming {tp}", repr(error), "Please report this as a bug"))

    def _raise_if_ended(self, token: str, error: RetryableError | None) -> None:
        if error is not None:
            self._metrics.failed_try("claim")
            if not self._stands(token):
                raise Stopped from error

    def _start_of(self, tp: TopicPartition, token: str, journal: Journal) -> Start:
        found = journal.claim(lambda: self._stands(token))
        if found is not None:
            journal.settle(self._register, lambda entry: _left_in(self._positions.of(tp), entry))
        kafka = self._positions.of(tp)
        if not self._stands(token):  # that may have taken long, and the next owner's first journal would meet ours
            raise FencedError("the assignment ended before its start was known")
        prefer_committed = self._prefer_committed and tp not in self._topic_ids
        start = start_of(
            journal.entry,
            kafka,
            reset=self._reset,
            prefer_committed=prefer_committed,
            keeps_state=self._keeps_state,
        )
        if self._custody:
            journal.begin(start.in_table, kafka.topic_id)
        elif found is not None:
            journal.switch_off()
        self._topic_ids[tp] = kafka.topic_id
        return start


def _left_in(kafka: KafkaPosition, entry: JournalEntry) -> range:
    """Which offsets of a batch Kafka still has: those of a topic that was recreated are other records."""
    if entry.topic_id and kafka.topic_id and entry.topic_id != kafka.topic_id:
        return range(0)
    return range(max(entry.start, kafka.low), min(entry.end + 1, kafka.high))


_RESTART = "It is tried again after a restart"
