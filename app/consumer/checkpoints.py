"""Keeps a checkpoint of quixstreams across retriable commit errors."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError
from quixstreams.processing import ProcessingContext

from app.consumer.assignment import Assignments
from app.consumer.errors import FROM_LAST_COMMIT, PASSING_ERRORS
from app.errors import FatalError, RetryableError
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_LAST_COMMIT_TRIES = 5

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

    def store_offset(self, topic: str, partition: int, offset: int) -> None:
        """See ``ProcessingContext.store_offset``; ignores a message before the expected offset: it was dropped."""
        assignment = self._assignments.find(topic, partition)
        if assignment is not None:
            if offset < assignment.expected:
                return
            assignment.expected = offset + 1
        self.consumed += 1
        super().store_offset(topic, partition, offset)

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
        error = self._try(lambda: super(Checkpoints, self).commit_checkpoint(force, revoking))
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


def _raise_if_lasting(error: KafkaError) -> None:
    if error.code() not in PASSING_ERRORS:
        raise FatalError("committing offsets", error.str(), "Check the user's rights on the consumer group") from None
