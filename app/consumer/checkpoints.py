"""Keeps a checkpoint of quixstreams across retriable commit errors.

``Checkpoints`` waits until all consumed records are in the lake, as quixstreams does. ``BatchCheckpoints`` commits the
offsets of each batch in the lake. It is for pipelines without ``transform()``, which have no state or produced records.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError
from quixstreams.processing import ProcessingContext

from app.consumer.assignment import Assignments
from app.consumer.errors import FROM_LAST_COMMIT, PASSING_ERRORS
from app.consumer.sink import LakeSink
from app.errors import FatalError, RetryableError
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_LAST_COMMIT_TRIES = 5
_ANSWER_SECONDS = 120.0  # Kafka's client tries that long by itself; each of its own requests ends after 60 s

_COMMIT = "commit"  # what is waited for

Offsets = Mapping[tuple[str, int], int]


class OffsetsInFlight:
    """The offsets of the current checkpoint, and which of them were stored when each batch was sealed.

    The sink records its batches here and checkpoints commit by them, so that neither depends on the other.
    """

    def __init__(self) -> None:
        self._stored: Offsets = {}
        self._sealed: list[tuple[int, Offsets]] = []

    def begin(self, stored: Offsets) -> None:
        """Begin a checkpoint; its offsets are added to ``stored``."""
        self._stored = stored
        self._sealed = []

    def sealed(self, batch: int) -> None:
        """Note that batches up to this one have the rows of all offsets stored so far."""
        self._sealed.append((batch, dict(self._stored)))

    def delivered(self, is_delivered: Callable[[int], bool]) -> tuple[int, Offsets] | None:
        """The last batch that is in the lake, with its offsets."""
        found = [sealed for sealed in self._sealed if is_delivered(sealed[0])]
        return found[-1] if found else None

    def committed(self, batch: int) -> None:
        """Note that the offsets of all batches up to this one are committed."""
        self._sealed = [sealed for sealed in self._sealed if sealed[0] > batch]


class Checkpoints(ProcessingContext):
    """Keeps a checkpoint whose offsets could not be committed because of a retriable error, and tries it again.

    If a checkpoint cannot be committed as a whole, the batches that are in the lake are. Else a connector that fails at
    the same record at each start would write them again each time.

    Args:
        assignments: the current ones, with the next offset of each.
        in_flight: the offsets of each batch.
        on_committed: called with the offsets of each commit.
        metrics: counts failed tries.
        timings: how long to pause between tries.
        context: fields of ``ProcessingContext``.
    """

    has_started_sinks: bool = False  # before the loop, where a failure is still one of the start
    last_chance: bool = False  # the process ends: no later turn of the loop can try again
    consumed: int = 0  # messages whose offsets were stored; one that is read again after a pause counts again
    _next_try: float = 0.0
    _due_at: float = 0.0
    _is_due_when_asked: bool = False  # else when the commit interval is over

    def __init__(
        self,
        *,
        assignments: Assignments,
        in_flight: OffsetsInFlight,
        on_committed: Callable[[Offsets], None],
        metrics: Metrics,
        timings: Timings = DEFAULT,
        **context: Any,
    ) -> None:
        super().__init__(**context)
        self.in_flight = in_flight
        self._assignments = assignments
        self._on_committed = on_committed
        self._metrics = metrics
        self._timings = timings

    @classmethod
    def instead_of(cls, context: ProcessingContext, **arguments: Any) -> Self:
        """The same context as this one, of this kind."""
        return cls(**{field.name: getattr(context, field.name) for field in fields(context) if field.init}, **arguments)

    def __enter__(self) -> "Checkpoints":
        if not self.has_started_sinks:
            super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def init_checkpoint(self) -> None:
        """See ``ProcessingContext.init_checkpoint``."""
        former = self._checkpoint
        super().init_checkpoint()  # type: ignore[no-untyped-call]
        self._due_at = self._timings.clock() + self.commit_interval
        self.in_flight.begin(self.checkpoint._tp_offsets)
        self._metrics.waits.over(_COMMIT)
        if former and self.consumer.backpressured_tps:
            for tp, offset in former._starting_tp_offsets.items():  # the pause seeks these partitions and no others
                self._assignments.expect(TopicPartition(*tp), offset)

    @property
    def due_in(self) -> float | None:
        """Seconds until the next commit is due, negative where it is late; ``None`` before consuming begins.

        Safe from any thread.
        """
        return self._due_at - self._timings.clock() if self._checkpoint else None

    def wait_for_room(self) -> bool:
        """Wait a moment for the pipeline, because the buffer is full; ``False`` if only a checkpoint can empty it."""
        return False

    def store_offset(self, topic: str, partition: int, offset: int) -> None:
        """See ``ProcessingContext.store_offset``; ignores a message before the expected offset: it was dropped."""
        assignment = self._assignments.find(topic, partition)
        if assignment is not None:
            if offset < assignment.expected:
                return
            assignment.expected = offset + 1
        self.consumed += 1
        super().store_offset(topic, partition, offset)

    def store_offsets(self, topic: str, partition: int, first: int, last: int, *, count: int) -> None:
        """Store the offsets of so many messages in one call, from the first to the last."""
        before = self.consumed
        self.store_offset(topic, partition, first)
        if last > first:
            self.store_offset(topic, partition, last)
        self.consumed = before + count

    def answered(self, error: KafkaError | None, partitions: Sequence[KafkaTopicPartition]) -> None:
        """Take Kafka's answer to a commit, on the consumer's thread. Ignored here: each commit waits for its answer."""

    def commit_delivered(self, is_delivered: Callable[[int], bool]) -> None:
        """Commit the batches of an abandoned checkpoint that are in the lake, so that they are not read again."""
        _, offsets = self.in_flight.delivered(is_delivered) or (0, {})
        if not offsets:
            return
        try:
            self.consumer.commit(offsets=_after(offsets), asynchronous=False)
        except KafkaException as error:
            logger.warning("offsets of what is in the lake already are not committed (%s)", error.args[0].str())

    def commit_checkpoint(self, force: bool = False, revoking: bool = False) -> None:
        """See ``ProcessingContext.commit_checkpoint``; while partitions are revoked there is no second try.

        Raises:
            RetryableError: the process ends and the offsets could not be committed in a few tries.
        """
        too_early = self._next_try - self._timings.clock()
        if too_early > 0 and not (revoking or self.last_chance):
            if not force:
                return
            self._timings.sleep(too_early)  # the buffer is full: it takes no more records
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
            if self.checkpoint._store_transactions:  # they are closed now, and take no more records
                doing = "committing offsets and the state of transform()"
                raise RetryableError(doing, error.str(), FROM_LAST_COMMIT)
            self._log_failed_try(error)
            if self.last_chance:
                self._timings.sleep(self._timings.commit_pause_seconds)
        self._next_try = self._timings.clock() + self._timings.commit_pause_seconds

    def _try_commit(self, force: bool, revoking: bool) -> KafkaError | None:
        """Commit if due; returns a retriable error and raises any other one."""
        before, offsets = self._checkpoint, self.checkpoint._tp_offsets
        is_due = force or self._is_due_when_asked
        error = self._try(lambda: super(Checkpoints, self).commit_checkpoint(is_due, revoking))
        if error is None and self._checkpoint is not before and offsets and not revoking:
            self._on_committed(offsets)
        return error

    def _log_failed_try(self, error: KafkaError) -> None:
        logger.warning("offsets not committed yet (%s); trying again", error.str())
        self._metrics.failed_try("commit")
        self._metrics.waits.failed(_COMMIT, RetryableError("committing offsets", error.str()).of("Kafka"))

    def _try(self, commit: Callable[[], object]) -> KafkaError | None:
        """Commit; returns a retriable error and raises any other one."""
        try:
            commit()
        except (CheckpointConsumerCommitError, KafkaException) as error:
            found: KafkaError = error.error if isinstance(error, CheckpointConsumerCommitError) else error.args[0]
            _raise_if_lasting(found)
            return found
        return None


@dataclass(slots=True)
class _UnderWay:
    """A commit in flight: its offsets, its last batch, and when it was sent (monotonic seconds)."""

    offsets: Offsets
    batch: int
    since: float
    is_answered: bool = False
    error: KafkaError | None = None


class BatchCheckpoints(Checkpoints):
    """Commits offsets as batches reach the lake, while the next ones are in flight.

    Args:
        lake: the sink.
        arguments: those of ``Checkpoints``.
    """

    _is_due_when_asked = True  # the sink says when it is

    def __init__(self, *, lake: LakeSink, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._lake = lake
        self._under_way: _UnderWay | None = None

    @classmethod
    def in_place_of(cls, former: Checkpoints, lake: LakeSink) -> Self:
        """The same checkpoints, committed batch by batch; called before the first one begins."""
        return cls.instead_of(
            former,
            lake=lake,
            assignments=former._assignments,
            in_flight=former.in_flight,
            on_committed=former._on_committed,
            metrics=former._metrics,
            timings=former._timings,
        )

    def init_checkpoint(self) -> None:
        """See ``ProcessingContext.init_checkpoint``."""
        super().init_checkpoint()
        self._under_way = None

    def wait_for_room(self) -> bool:
        """See ``Checkpoints.wait_for_room``."""
        return self._lake.wait_for_room()

    def answered(self, error: KafkaError | None, partitions: Sequence[KafkaTopicPartition]) -> None:
        """See ``Checkpoints.answered``; most commits here do not wait for it."""
        ends = {(each.topic, each.partition): each.offset - 1 for each in partitions}
        if self._under_way and ends == self._under_way.offsets:  # others are of an abandoned checkpoint
            self._under_way.is_answered = True
            self._under_way.error = error or next((each.error for each in partitions if each.error), None)

    def commit_checkpoint(self, force: bool = False, revoking: bool = False) -> None:
        """See ``Checkpoints.commit_checkpoint``; does not wait unless it is the last one."""
        if not (force or revoking or self.last_chance) and self._go_on():
            return
        super().commit_checkpoint(force, revoking)

    def _go_on(self) -> bool:
        """Commit the batches in the lake without waiting for the rest; ``False`` if a flush has to wait for it."""
        now = self._timings.clock()
        if self._under_way:
            self._look_for_answer(self._under_way, now)
        if not self._under_way and now >= self._next_try:
            self._commit_delivered_batches(now)
        if now < self._due_at:
            return True
        if not self._lake.begin_checkpoint():
            return False
        self._due_at = now + self.commit_interval
        return True

    def _commit_delivered_batches(self, now: float) -> None:
        """Commit without waiting for the answer: a broker that dies now would block the loop for minutes."""
        delivered = self.in_flight.delivered(self._lake.is_delivered)
        batch, offsets = delivered or (0, {})
        if now >= self._due_at and self._lake.is_empty:  # there may be later messages, without rows or skipped
            batch, offsets = self._lake.last_portion, dict(self.checkpoint._tp_offsets)
        if not (delivered or offsets):
            return
        self._under_way = commit = _UnderWay(offsets, batch, now)
        if offsets:
            commit.error = self._try(lambda: self.consumer.commit(offsets=_after(offsets), asynchronous=True))
        commit.is_answered = commit.error is not None or not offsets

    def _look_for_answer(self, commit: _UnderWay, now: float) -> None:
        if not commit.is_answered:
            if now < commit.since + _ANSWER_SECONDS:
                return
            commit.error = KafkaError(KafkaError._TIMED_OUT)
        self._under_way = None
        if commit.error is None:
            self._metrics.waits.over(_COMMIT)
            self.in_flight.committed(commit.batch)
            # Back-pressure goes back to here.
            self.checkpoint._starting_tp_offsets.update({tp: offset + 1 for tp, offset in commit.offsets.items()})
            self._lake.committed(commit.batch)
            self._on_committed(commit.offsets)
            if commit.offsets == self.checkpoint._tp_offsets:  # there is nothing left to commit
                due_at = self._due_at
                self.init_checkpoint()
                self._due_at = due_at
            return
        _raise_if_lasting(commit.error)
        self._log_failed_try(commit.error)
        self._next_try = now + self._timings.commit_pause_seconds


def _raise_if_lasting(error: KafkaError) -> None:
    if error.code() not in PASSING_ERRORS:
        raise FatalError("committing offsets", error.str(), "Check the user's rights on the consumer group") from None


def _after(offsets: Mapping[tuple[str, int], int]) -> list[KafkaTopicPartition]:
    return [KafkaTopicPartition(*tp, offset + 1) for tp, offset in offsets.items()]
