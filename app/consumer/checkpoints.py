"""Keeps a checkpoint of quixstreams across retriable commit errors.

``Checkpoints`` waits until all consumed records are in the lake, as quixstreams does. ``BatchCheckpoints`` commits the
offsets of each batch in the lake. It is for pipelines without ``transform()``, which have no state or produced records.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
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
_COPY_AGAIN_SECONDS = 60.0  # a commit that failed is repeated then, if no later one went before

_COMMIT = "commit"  # what is waited for

Offsets = Mapping[Any, int]  # by topic and partition


class Checkpoints(ProcessingContext):
    """Keeps a checkpoint whose offsets could not be committed because of a retriable error, and tries it again.

    If a checkpoint cannot be committed as a whole, the batches that are in the lake are. Else a connector that fails at
    the same record at each start would write them again each time.

    Args:
        assignments: the current ones, with the next offset of each.
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
        on_committed: Callable[[Offsets], None],
        metrics: Metrics,
        timings: Timings = DEFAULT,
        **context: Any,
    ) -> None:
        super().__init__(**context)
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

    def commit_ends(self, ends: Offsets, *, asynchronous: bool = False) -> None:
        """Copy to Kafka how far the partitions are in the lake. Nothing is read twice where that fails."""
        if not ends:
            return
        try:
            self.consumer.commit(offsets=_after(ends), asynchronous=asynchronous)
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


class BatchCheckpoints(Checkpoints):
    """Commits offsets as batches reach the lake, while the next ones are in flight.

    Kafka's answers are not waited for: consuming begins where the log ends, whatever the group's offset is. A broker
    that dies with a commit in flight would block the loop for minutes.

    Args:
        lake: the sink.
        arguments: those of ``Checkpoints``.
    """

    _is_due_when_asked = True  # the sink says when it is

    def __init__(self, *, lake: LakeSink, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._lake = lake
        self._copied: dict[TopicPartition, int] = {}  # offsets that were sent to Kafka; some may not have arrived
        self._copy_again_at = 0.0

    @classmethod
    def in_place_of(cls, former: Checkpoints, lake: LakeSink) -> Self:
        """The same checkpoints, committed batch by batch; called before the first one begins."""
        return cls.instead_of(
            former,
            lake=lake,
            assignments=former._assignments,
            on_committed=former._on_committed,
            metrics=former._metrics,
            timings=former._timings,
        )

    def init_checkpoint(self) -> None:
        """See ``ProcessingContext.init_checkpoint``."""
        super().init_checkpoint()
        self._copied = {}

    def wait_for_room(self) -> bool:
        """See ``Checkpoints.wait_for_room``."""
        return self._lake.wait_for_room()

    def commit_checkpoint(self, force: bool = False, revoking: bool = False) -> None:
        """See ``Checkpoints.commit_checkpoint``; does not wait unless it is the last one."""
        if not (force or revoking or self.last_chance) and self._go_on():
            return
        super().commit_checkpoint(force, revoking)

    def _go_on(self) -> bool:
        """Commit the batches in the lake without waiting for the rest; ``False`` if a flush has to wait for it."""
        now = self._timings.clock()
        self._commit_delivered(now)
        if now < self._due_at:
            return True
        if not self._lake.begin_checkpoint():
            return False
        self._due_at = now + self.commit_interval
        return True

    def _commit_delivered(self, now: float) -> None:
        ends = self._lake.take_delivered()
        if ends:
            # Back-pressure goes back to here.
            self.checkpoint._starting_tp_offsets.update({tp: end + 1 for tp, end in ends.items()})
            self._copied |= ends
            self._on_committed(ends)
        if self._copied and (ends or now >= self._copy_again_at):
            self._copy_again_at = now + _COPY_AGAIN_SECONDS
            self.commit_ends(self._copied, asynchronous=True)


def _raise_if_lasting(error: KafkaError) -> None:
    if error.code() not in PASSING_ERRORS:
        raise FatalError("committing offsets", error.str(), "Check the user's rights on the consumer group") from None


def _after(offsets: Offsets) -> list[KafkaTopicPartition]:
    return [KafkaTopicPartition(*tp, offset + 1) for tp, offset in offsets.items()]
