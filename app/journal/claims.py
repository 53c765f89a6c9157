"""Claims the journals of newly assigned partitions, away from the consumer's thread, and finds where each begins.

An assignment's callback may neither wait for a store that is away (the broker would take the consumer for dead) nor
fail. So partitions are paused there, and resumed by the consumer's loop once their claim is through.
"""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.entry import JournaledFile, JournalEntry, ids_differ
from app.journal.entry_store import FencedError
from app.journal.group_offsets import PartitionOffsets
from app.journal.journal import Journal
from app.journal.kafka_watch import KafkaWatch, TopicIds
from app.journal.ownership import JournalOwnership
from app.journal.start_offset import Start, StartFrom, check_cluster, lacks_offset, start_of
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.retry import Stopped, until_it_works
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Offsets(Protocol):
    """Asks Kafka about a topic-partition; ``app.journal.group_offsets.GroupOffsets`` in production."""

    def of(self, tp: TopicPartition) -> PartitionOffsets: ...
    def cluster_id(self) -> str: ...


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
        ownership: keeps the claimed journals; ``None`` for at-least-once delivery: a journal that is found is then
            recovered and switched off, and none is begun.
        offsets: asks Kafka.
        register: makes files of a former owner's batch known to the catalog.
        is_current: whether the assignment with this token is current.
        first_offset: where a partition begins of which the group has neither an offset nor a journal.
        topic_ids: keeps the id of the topic that a partition is claimed in.
        start_from: which counts where journal and group differ, the first time that a partition is claimed. Later the
            group's offset differs for other reasons than a user's hand.
        keeps_state: whether ``transform()`` keeps state, or repartitions.
        workers: claims at the same time.
        check_group: returns the error to end with where nothing may be claimed in this consumer group.
        watch: asks Kafka from time to time, from the first assignment on.
        metrics: counts tries that failed.
        timings: how long to pause between tries, and between two times that ``advance`` writes journals.
    """

    def __init__(
        self,
        *,
        new_journal: Callable[[TopicPartition, str], Journal],
        ownership: JournalOwnership | None,
        offsets: Offsets,
        register: Callable[[Sequence[JournaledFile]], None],
        is_current: Callable[[str], bool],
        first_offset: Callable[[TopicPartition, PartitionOffsets], int],
        topic_ids: TopicIds,
        start_from: StartFrom,
        keeps_state: bool,
        workers: int,
        check_group: Callable[[], ConnectorError | None] = lambda: None,
        watch: KafkaWatch | None = None,
        metrics: Metrics | None = None,
        timings: Timings = DEFAULT,
    ) -> None:
        self._new_journal = new_journal
        self._ownership = ownership
        self._offsets = offsets
        self._register = register
        self._is_current = is_current
        self._first_offset = first_offset
        self._topic_ids = topic_ids
        self._start_from: StartFrom = start_from
        self._keeps_state = keeps_state
        self._check_group = check_group
        self._watch = watch
        self._metrics = metrics or Metrics()
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="claim")
        self._stop = threading.Event()
        self._timings = timings
        self._advanced_at = timings.clock()
        self._through: queue.SimpleQueue[Claim | ConnectorError] = queue.SimpleQueue()

    def begin(self, tokens: Mapping[TopicPartition, str]) -> None:
        """Begin to claim these partitions for the assignments with these tokens."""
        if self._watch:
            self._watch.start()
        for tp, token in tokens.items():
            self._pool.submit(self._claim, tp, token)

    def finished(self) -> list[Claim]:
        """The claims that came through since the last call, of assignments that are still current.

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
            if self._is_current(item.token):
                claims.append(item)

    def is_same_topic(self, tp: TopicPartition) -> bool | None:
        """Whether the topic is the one that was claimed; ``None`` if Kafka does not say."""
        try:
            return self._topic_ids.is_same(tp)
        except ConnectorError as error:
            logger.debug("%s", error)
            return None

    def topic_id(self, tp: TopicPartition) -> str:
        """The id that the topic had when the partition was claimed; empty where that is not known."""
        return self._topic_ids.of(tp)

    def check(self) -> None:
        """For each turn of the consumer's loop.

        Raises:
            ConnectorError: topic or group are not as they were any more.
        """
        if self._watch:
            self._watch.raise_found()

    def advance(self, ends: Mapping[str, int]) -> None:
        """The offsets up to these, by the token of the assignment, are committed. Never raises, and does not wait.

        Rows filtered out are in no batch: without this, a restart would read them again from the last batch on. Now and
        then is enough for that.
        """
        now = self._timings.clock()
        if self._ownership and now - self._advanced_at >= self._timings.advance_seconds:
            self._advanced_at = now
            self._pool.submit(self._advance, self._ownership, ends)

    def stop(self) -> None:
        """Give up the claims under way, once nothing asks for ownership any more."""
        self._stop.set()
        if self._watch:
            self._watch.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._ownership:
            self._ownership.stop()

    # --- on threads of the pool -------------------------------------------------------------------------------------

    def _advance(self, ownership: JournalOwnership, ends: Mapping[str, int]) -> None:
        try:
            ownership.advance(ends)
        except ConnectorError as error:
            logger.debug("%s. It is tried again after a later commit", error)
        except Exception as error:
            logger.warning("bringing the journals up to date: %r. Please report this as a bug", error, exc_info=True)

    def _claim(self, tp: TopicPartition, token: str) -> None:
        try:
            refusal = self._until_it_works(token, self._check_group)
            if refusal is not None:
                self._through.put(refusal)
                return
            journal = self._new_journal(tp, token)
            start = self._until_it_works(token, lambda: self._start_of(tp, token, journal))
            if self._ownership:
                self._ownership.take(token, journal)
            self._through.put(Claim(tp, token, start))
        except Stopped:
            pass
        except FencedError as error:
            if self._is_current(token):
                self._through.put(RetryableError(f"claiming {tp}", str(error), _RESTART))
        except ConnectorError as error:
            self._through.put(error)
        except Exception as error:
            logger.debug("claiming failed", exc_info=True)
            self._through.put(FatalError(f"claiming {tp}", repr(error), "Please report this as a bug"))

    def _until_it_works(self, token: str, work: Callable[[], _T]) -> _T:
        return until_it_works(
            work,
            stop=self._stop,
            on_wait=lambda error: self._raise_if_ended(token, error),
            timings=self._timings,
        )

    def _raise_if_ended(self, token: str, error: RetryableError | None) -> None:
        if error is not None:
            self._metrics.failed_try("claim")
            if not self._is_current(token):
                raise Stopped from error

    def _start_of(self, tp: TopicPartition, token: str, journal: Journal) -> Start:
        cluster_id = self._offsets.cluster_id()
        found = journal.claim(
            lambda: self._is_current(token), lambda entry: check_cluster(entry, cluster_id, tp, self._start_from)
        )
        if found is not None:
            journal.recover(self._register, lambda entry: _left_in(self._offsets.of(tp), entry))
        kafka = self._offsets.of(tp)
        first = self._first_offset(tp, kafka) if lacks_offset(journal.entry, kafka) else kafka.low
        if not self._is_current(token):  # that may have taken long, and the next owner's first journal would meet ours
            raise FencedError("the assignment ended before its start was known")
        start = start_of(
            tp,
            journal.entry,
            kafka,
            first=first,
            start_from="journal" if self._topic_ids.was_claimed(tp) else self._start_from,
            keeps_state=self._keeps_state,
        )
        if self._ownership:
            # An offset without a mark, of a former release for example, is in Kafka until the start is committed. That
            # may fail, or never be tried as the assignment ends before: the next claim must not think it of others.
            is_led = kafka.is_led_by_others(start.in_table)
            journal.begin(start.in_table, kafka.topic_id, kafka.cluster_id, marks_commits=not is_led)
        elif found is not None:
            journal.switch_off()
        self._topic_ids.claimed(tp, kafka.topic_id)
        return start


def _left_in(kafka: PartitionOffsets, entry: JournalEntry) -> range:
    """Which of a batch's offsets Kafka still has: a recreated topic, or another cluster, has other records."""
    if ids_differ(entry.topic_id, kafka.topic_id) or ids_differ(entry.cluster_id, kafka.cluster_id):
        return range(0)
    return range(max(entry.start, kafka.low), min(entry.end + 1, kafka.high))


_RESTART = "It is tried again after a restart"
