"""Checkpoints of quixstreams that outlive what passes: a coordinator that moves, a rebalance, a failed pipeline."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError
from quixstreams.processing import ProcessingContext

from app.consumer.errors import FROM_LAST_COMMIT, PASSING_ERRORS
from app.errors import FatalError, RetryableError

logger = logging.getLogger(__name__)

_COMMIT_PAUSE_SECONDS = 1.0
_LAST_COMMIT_TRIES = 5
_ANSWER_SECONDS = 120.0  # Kafka's client tries that long by itself; each of its own requests ends after 60 s


class Lake(Protocol):
    """What is asked of the sink where offsets are committed batch by batch; see ``app.consumer.sink.LakeSink``."""

    @property
    def is_empty(self) -> bool: ...
    @property
    def last_batch(self) -> int: ...
    def begin_checkpoint(self) -> bool: ...
    def is_delivered(self, number: int) -> bool: ...
    def committed(self, number: int) -> None: ...


@dataclass(slots=True)
class _UnderWay:
    """A commit that nobody waits for: what it commits, up to which batch, and since when (monotonic seconds)."""

    offsets: Mapping[tuple[str, int], int]
    batch: int
    since: float
    is_answered: bool = False
    error: KafkaError | None = None


class Checkpoints(ProcessingContext):
    """Keeps a checkpoint whose offsets could not be committed for a passing reason, and tries it again.

    It also knows how far each batch of the sink goes, so that of a checkpoint that cannot be committed as a whole the
    part in the lake can be: a connector that fails at the same place at every start would write it again each time.
    """

    on_committed: Callable[[Mapping[tuple[str, int], int]], None] = staticmethod(lambda _: None)
    on_failed_try: Callable[[], None] = staticmethod(lambda: None)  # offsets could not be committed, for now
    lake: Lake | None = None  # where offsets may be committed batch by batch, while the next ones are under way
    has_started_sinks: bool = False  # before the loop, where a failure is still one of the start
    last_chance: bool = False  # the process ends: there is no later turn of the loop to try again
    _next_try: float = 0.0

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._next: dict[tuple[str, int], int] = {}
        self._due_at = 0.0

    def __enter__(self) -> "Checkpoints":
        if not self.has_started_sinks:
            super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def init_checkpoint(self) -> None:
        """See ``ProcessingContext.init_checkpoint``."""
        former = self._checkpoint
        super().init_checkpoint()  # type: ignore[no-untyped-call]
        self._sealed: list[tuple[int, dict[tuple[str, int], int]]] = []
        self._under_way: _UnderWay | None = None
        self._due_at = time.monotonic() + self.commit_interval
        if former and self.consumer.backpressured_tps:
            self._next.update(former._starting_tp_offsets)  # the pause goes back to these, and leaves other partitions

    def expect_anything(self) -> None:
        """Offsets may go back from here: it is a new assignment."""
        self._next.clear()

    def expect(self, topic: str, partition: int, offset: int) -> None:
        """No message before this offset is to come from this partition."""
        self._next[topic, partition] = offset

    def expected(self, topic: str, partition: int) -> int:
        """The first offset that may come from this partition."""
        return self._next.get((topic, partition), 0)

    def store_offset(self, topic: str, partition: int, offset: int) -> None:
        """See ``ProcessingContext.store_offset``; a message that came out of turn was not processed and counts not."""
        if offset >= self.expected(topic, partition):
            self._next[topic, partition] = offset + 1
            super().store_offset(topic, partition, offset)

    def store_offsets(self, topic: str, partition: int, first: int, last: int) -> None:
        """As if the offset of each message from the first to the last were stored."""
        self.store_offset(topic, partition, first)
        if last > first:
            self.store_offset(topic, partition, last)

    def sealed(self, batch: int) -> None:
        """All offsets stored so far are those of rows in batches up to this one."""
        self._sealed.append((batch, dict(self.checkpoint._tp_offsets)))

    def answered(self, error: KafkaError | None, partitions: Sequence[KafkaTopicPartition]) -> None:
        """What became of a commit that nobody waits for; Kafka's client calls it on the thread that consumes."""
        ends = {(each.topic, each.partition): each.offset - 1 for each in partitions}
        if self._under_way and ends == self._under_way.offsets:  # others are of a checkpoint that is given up
            self._under_way.is_answered = True
            self._under_way.error = error or next((each.error for each in partitions if each.error), None)

    def commit_delivered(self, is_delivered: Callable[[int], bool]) -> None:
        """Commit what is in the lake of a checkpoint that is given up; without it that is read again."""
        delivered = [offsets for batch, offsets in self._sealed if is_delivered(batch)]
        if not delivered or not delivered[-1]:
            return
        try:
            self.consumer.commit(offsets=_after(delivered[-1]), asynchronous=False)
        except KafkaException as error:
            logger.warning("offsets of what is in the lake already are not committed (%s)", error.args[0].str())

    def commit_checkpoint(self, force: bool = False, revoking: bool = False) -> None:
        """See ``ProcessingContext.commit_checkpoint``; while partitions are revoked there is no second try.

        Raises:
            RetryableError: the process ends and the offsets could not be committed in a few tries.
        """
        if self.lake and not (force or revoking or self.last_chance) and self._go_on(self.lake):
            return
        too_early = self._next_try - time.monotonic()
        if too_early > 0 and not (revoking or self.last_chance):
            if not force:
                return
            time.sleep(too_early)  # the buffer is full: reading on would go beyond its bound
        for tries_left in reversed(range(_LAST_COMMIT_TRIES if self.last_chance else 1)):
            error = self._try_commit(force, revoking)
            if error is None:
                return
            if revoking:
                logger.warning("offsets not committed (%s); their new owner reads the rows again", error.str())
                self.init_checkpoint()
                return
            if self.last_chance and not tries_left:
                raise RetryableError("committing offsets", error.str(), "The rows since the last commit are read again")
            if self.checkpoint._store_transactions:  # they are closed by now, and cannot take what comes next
                doing = "committing offsets and the state of transform()"
                raise RetryableError(doing, error.str(), FROM_LAST_COMMIT)
            self._tell_of_failed_try(error)
            if self.last_chance:
                time.sleep(_COMMIT_PAUSE_SECONDS)
        self._next_try = time.monotonic() + _COMMIT_PAUSE_SECONDS

    def _go_on(self, lake: Lake) -> bool:
        """Commit what is in the lake by now, without waiting for the rest; ``False`` where it is to be waited for."""
        now = time.monotonic()
        if self._under_way:
            self._look_for_answer(lake, self._under_way, now)
        if not self._under_way and now >= self._next_try:
            self._commit_what_is_in(lake, now)
        if now < self._due_at:
            return True
        if not lake.begin_checkpoint():
            return False
        self._due_at = now + self.commit_interval
        return True

    def _commit_what_is_in(self, lake: Lake, now: float) -> None:
        """Nobody waits for the answer: a broker that dies just then would hold up the loop for minutes."""
        delivered = [sealed for sealed in self._sealed if lake.is_delivered(sealed[0])]
        batch, offsets = delivered[-1] if delivered else (0, {})
        if now >= self._due_at and lake.is_empty:  # there may be later messages, without rows or skipped
            batch, offsets = lake.last_batch, dict(self.checkpoint._tp_offsets)
        if not (delivered or offsets):
            return
        self._under_way = commit = _UnderWay(offsets, batch, now)
        if offsets:
            commit.error = self._try(lambda: self.consumer.commit(offsets=_after(offsets), asynchronous=True))
        commit.is_answered = commit.error is not None or not offsets

    def _look_for_answer(self, lake: Lake, commit: _UnderWay, now: float) -> None:
        if not commit.is_answered:
            if now < commit.since + _ANSWER_SECONDS:
                return
            commit.error = KafkaError(KafkaError._TIMED_OUT)
        self._under_way = None
        if commit.error is None:
            self._sealed = [(batch, offsets) for batch, offsets in self._sealed if batch > commit.batch]
            # Back-pressure goes back to here.
            self.checkpoint._starting_tp_offsets.update({tp: offset + 1 for tp, offset in commit.offsets.items()})
            lake.committed(commit.batch)
            self.on_committed(commit.offsets)
            if commit.offsets == self.checkpoint._tp_offsets:  # there is nothing left to commit
                due_at = self._due_at
                self.init_checkpoint()
                self._due_at = due_at
            return
        _raise_if_lasting(commit.error)
        self._tell_of_failed_try(commit.error)
        self._next_try = now + _COMMIT_PAUSE_SECONDS

    def _try_commit(self, force: bool, revoking: bool) -> KafkaError | None:
        """Commit if due; a passing error is returned, a lasting one raised."""
        before, offsets = self._checkpoint, self.checkpoint._tp_offsets
        # Where offsets are committed batch by batch, it is due when the sink says so.
        error = self._try(lambda: super(Checkpoints, self).commit_checkpoint(force or bool(self.lake), revoking))
        if error is None and self._checkpoint is not before and offsets and not revoking:
            self.on_committed(offsets)
        return error

    def _tell_of_failed_try(self, error: KafkaError) -> None:
        logger.warning("offsets not committed yet (%s); trying again", error.str())
        self.on_failed_try()

    def _try(self, commit: Callable[[], object]) -> KafkaError | None:
        """Commit; a passing error is returned, a lasting one raised."""
        try:
            commit()
        except (CheckpointConsumerCommitError, KafkaException) as error:
            found: KafkaError = error.error if isinstance(error, CheckpointConsumerCommitError) else error.args[0]
            _raise_if_lasting(found)
            return found
        return None


def _raise_if_lasting(error: KafkaError) -> None:
    if error.code() not in PASSING_ERRORS:
        raise FatalError("committing offsets", error.str(), "Check the user's rights on the consumer group") from None


def _after(offsets: Mapping[tuple[str, int], int]) -> list[KafkaTopicPartition]:
    return [KafkaTopicPartition(*tp, offset + 1) for tp, offset in offsets.items()]
