"""Claims the journals of newly assigned partitions on threads of its own, and finds the first offset of each.

The callback of an assignment must not fail, and must not wait for a store that is away: the broker would remove the
consumer from the group. So the callback pauses the partitions, and the consumer's loop resumes them after their claims.
"""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from app.errors import ConnectorError, FatalError, RetryableError, blaming
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
    """Claims in parallel, and retries each claim until it succeeds or the assignment ends.

    Args:
        new_journal: makes the journal of a topic-partition for the assignment with this token.
        ownership: keeps the claimed journals. ``None`` for at-least-once delivery: an existing journal is then
            recovered and switched off, and no new one is written.
        offsets: asks Kafka.
        register: registers the files of a former owner's batch in the catalog.
        is_current: whether the assignment with this token is current.
        first_offset: the first offset of a partition for which the group has neither an offset nor a journal.
        topic_ids: keeps the id of the topic at the claim.
        start_from: which of journal and group decides if they differ, at the first claim of a partition. Later they
            differ for other reasons than a user who moved the group's offset.
        keeps_state: whether ``transform()`` keeps state, or repartitions.
        workers: claims at the same time.
        check_group: returns the error to end with if nothing may be claimed in this consumer group.
        watch: asks Kafka regularly, from the first assignment on.
        metrics: counts failed tries.
        timings: the pauses between tries, and between two writes of ``advance``.
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
        """The claims that have succeeded since the last call, of current assignments.

        Raises:
            ConnectorError: a claim failed with an error that no retry corrects.
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
        """The id that the topic had when the partition was claimed; empty if it is not known."""
        return self._topic_ids.of(tp)

    def check(self) -> None:
        """Raise the error that the watch has found; called at each turn of the consumer's loop.

        Raises:
            ConnectorError: the topic was recreated, or another member of the group writes another table.
        """
        if self._watch:
            self._watch.raise_found()

    def advance(self, ends: Mapping[str, int]) -> None:
        """Write these committed offsets, by token, into the journals. Never raises, and does not wait.

        Records that ``transform()`` filters out are in no batch. Without this, a restart would read them again from the
        last batch on. One write a minute is enough.
        """
        now = self._timings.clock()
        if self._ownership and now - self._advanced_at >= self._timings.advance_seconds:
            self._advanced_at = now
            self._pool.submit(self._advance, self._ownership, ends)

    def stop(self) -> None:
        """End the claims in progress; called when the pipeline has ended."""
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
            refusal = self._until_it_works(token, self._is_group_ours)
            if refusal is not None:
                self._through.put(refusal)
                return
            journal = self._new_journal(tp, token)
            start = self._until_it_works(token, lambda: self._found_start(tp, token, journal))
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
        finally:
            self._metrics.waits.over(token)

    def _until_it_works(self, token: str, work: Callable[[], _T]) -> _T:
        return until_it_works(
            work,
            stop=self._stop,
            on_wait=lambda error: self._raise_if_ended(token, error),
            timings=self._timings,
        )

    def _raise_if_ended(self, token: str, error: RetryableError | None) -> None:
        if error is None:
            self._metrics.waits.over(token)
        else:
            self._metrics.failed_try("claim")
            self._metrics.waits.failed(token, error)
            if not self._is_current(token):
                raise Stopped from error

    def _is_group_ours(self) -> ConnectorError | None:
        with blaming("Kafka"):
            return self._check_group()

    def _found_start(self, tp: TopicPartition, token: str, journal: Journal) -> Start:
        with blaming("store"):
            return self._start_of(tp, token, journal)

    def _start_of(self, tp: TopicPartition, token: str, journal: Journal) -> Start:
        cluster_id = self._offsets.cluster_id()
        found = journal.claim(
            lambda: self._is_current(token), lambda entry: check_cluster(entry, cluster_id, tp, self._start_from)
        )
        if found is not None:
            journal.recover(self._register, lambda entry: _left_in(self._offsets.of(tp), entry))
        kafka = self._offsets.of(tp)
        first = self._first_offset(tp, kafka) if lacks_offset(journal.entry, kafka) else kafka.low
        if not self._is_current(token):  # it may have taken long: the next owner may be writing the first journal
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
            # Kafka keeps an offset without a mark, of a former release for example, until the start is committed. That
            # commit may fail, or the assignment may end before: the next claim must not ascribe it to another program.
            is_led = kafka.is_led_by_others(start.in_table)
            journal.begin(start.in_table, kafka.topic_id, kafka.cluster_id, marks_commits=not is_led)
        elif found is not None:
            journal.switch_off()
        self._topic_ids.claimed(tp, kafka.topic_id)
        return start


def _left_in(kafka: PartitionOffsets, entry: JournalEntry) -> range:
    """The offsets of a batch that Kafka still has: none if the topic was recreated or the cluster is another one."""
    if ids_differ(entry.topic_id, kafka.topic_id) or ids_differ(entry.cluster_id, kafka.cluster_id):
        return range(0)
    return range(max(entry.start, kafka.low), min(entry.end + 1, kafka.high))


_RESTART = "It is tried again after a restart"
