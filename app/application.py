"""The quixstreams application, with what a sink that writes in the background needs from it.

It overrides private methods of quixstreams 3.28.1, which is why that version is pinned and a contract test fails when
the code overridden here changes.
"""

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams import Application
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError
from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.kafka.exceptions import KafkaConsumerException
from quixstreams.models import RawConfluentKafkaMessageProto, Row
from quixstreams.processing import ProcessingContext

from app.bad_records import NotARowError
from app.errors import ConnectorError, DataError, FatalError, RetryableError
from app.model import Rejected, TopicPartition, known_timestamp
from app.sink import LakeSink

logger = logging.getLogger(__name__)

_COMMIT_PAUSE_SECONDS = 1.0
_LAST_COMMIT_TRIES = 5
# The coordinator moves or a rebalance is on: offsets can be committed later, or the next owner reads the rows again.
_PASSING_COMMIT_ERRORS = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
    }
)
_LASTING_CONSUMER_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)

_HINT_DESERIALIZERS = (
    "Set KAFKA_VALUE_DESERIALIZER and KAFKA_KEY_DESERIALIZER to what the producer writes, or set ON_BAD_RECORD"
)


class Checkpoints(ProcessingContext):
    """Keeps a checkpoint whose offsets could not be committed for a passing reason, and tries it again.

    It also knows how far each batch of the sink goes, so that of a checkpoint that cannot be committed as a whole the
    part in the lake can be: a connector that fails at the same place at every start would write it again each time.
    """

    last_chance: bool = False  # the process ends: there is no later turn of the loop to try again
    _next_try: float = 0.0

    def init_checkpoint(self) -> None:
        """See ``ProcessingContext.init_checkpoint``."""
        super().init_checkpoint()  # type: ignore[no-untyped-call]
        self._sealed: list[tuple[int, dict[tuple[str, int], int]]] = []

    def sealed(self, batch: int) -> None:
        """All offsets stored so far are those of rows in batches up to this one."""
        self._sealed.append((batch, dict(self.checkpoint._tp_offsets)))

    def commit_delivered(self, is_delivered: Callable[[int], bool]) -> None:
        """Commit what is in the lake of a checkpoint that is given up; without it that is read again."""
        delivered = [offsets for batch, offsets in self._sealed if is_delivered(batch)]
        if not delivered or not delivered[-1]:
            return
        offsets = [KafkaTopicPartition(*tp, offset + 1) for tp, offset in delivered[-1].items()]
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            logger.warning("offsets of what is in the lake already are not committed (%s)", error.args[0].str())

    def commit_checkpoint(self, force: bool = False, revoking: bool = False) -> None:
        """See ``ProcessingContext.commit_checkpoint``; while partitions are revoked there is no second try.

        Raises:
            RetryableError: the process ends and the offsets could not be committed in a few tries.
        """
        if time.monotonic() < self._next_try and not (revoking or self.last_chance):
            return
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
            logger.warning("offsets not committed yet (%s); trying again", error.str())
            if self.last_chance:
                time.sleep(_COMMIT_PAUSE_SECONDS)
        self._next_try = time.monotonic() + _COMMIT_PAUSE_SECONDS

    def _try_commit(self, force: bool, revoking: bool) -> KafkaError | None:
        """Commit if due; a passing error is returned, a lasting one raised."""
        try:
            super().commit_checkpoint(force=force, revoking=revoking)
        except CheckpointConsumerCommitError as error:
            kafka_error: KafkaError = error.error
            if kafka_error.code() in _PASSING_COMMIT_ERRORS:
                return kafka_error
            raise FatalError(
                "committing offsets", kafka_error.str(), "Check the user's rights on the consumer group"
            ) from None
        return None


class LakeApplication(Application):
    """Tells the sink of assignments and of each turn of the loop, and makes checkpoints when the sink is full.

    Args:
        lake_sink: the sink that all rows go to.
        on_turn: called at each turn of the consumer's loop.
        arguments: those of ``quixstreams.Application``.
    """

    def __init__(self, *, lake_sink: LakeSink, on_turn: Callable[[], None], **arguments: Any) -> None:
        self._lake_sink = lake_sink
        super().__init__(
            on_consumer_error=self._consuming_failed,
            on_processing_error=self._processing_failed,
            **arguments,
        )
        self._on_turn = on_turn
        self._stop_requested = False
        self._composed: dict[str, Callable[..., None]] | None = None
        self._executors: dict[str, Callable[..., None]] = {}
        former = self._processing_context
        self._processing_context = self._checkpoints = Checkpoints(
            **{field.name: getattr(former, field.name) for field in dataclasses.fields(former) if field.init}
        )
        lake_sink.on_sealed = self._checkpoints.sealed

    def request_stop(self) -> None:
        """Stop as soon as the current record is done; safe in a signal handler and before ``run()``."""
        self._stop_requested = True
        self._checkpoints.last_chance = True
        self._lake_sink.stopping()
        self.stop()

    def _run_dataframe(self, sink: Any = None) -> None:
        try:
            super()._run_dataframe(sink)
        except ConnectorError:
            self._checkpoints.commit_delivered(self._lake_sink.is_delivered)
            raise

    def _setup_signal_handlers(self) -> None:
        """Signals are handled from the process's start on, and not only from here."""

    def _process_message(self, dataframe_composed: Any) -> None:
        if self._stop_requested:  # a stop before the loop began is forgotten by the framework
            self.stop()
            return
        try:
            super()._process_message(self._watched(dataframe_composed))  # type: ignore[no-untyped-call]
        except DataError as error:
            self._commit_before(error)
            raise
        except PartitionAssignmentError as error:
            if isinstance(error.__cause__, ConnectorError):  # of ours, raised in the callback of a rebalance
                raise error.__cause__ from None
            raise
        self._lake_sink.turn()
        if self._lake_sink.is_full:
            self._checkpoints.commit_checkpoint(force=True)
        self._on_turn()

    def _watched(self, composed: dict[str, Callable[..., None]]) -> dict[str, Callable[..., None]]:
        """The same executors, telling the sink where each record begins."""
        if self._composed is not composed:
            self._composed = composed
            self._executors = {name: self._beginning(execute) for name, execute in composed.items()}
        return self._executors

    def _beginning(self, execute: Callable[..., None]) -> Callable[..., None]:
        begin = self._lake_sink.begin_record

        def run(value: Any, key: Any, timestamp: int, headers: Any) -> None:
            begin()
            execute(value, key, timestamp, headers)

        return run

    def _consuming_failed(
        self, error: Exception, message: RawConfluentKafkaMessageProto | None, _: logging.Logger
    ) -> bool:
        """Whether the loop may go on; a message that does not deserialize is rejected and counts as consumed."""
        if message is None:
            return _kafka_failed(error)
        rejected = _not_deserialized(error, message)
        self._lake_sink.begin_record()
        self._lake_sink.reject(rejected, _HINT_DESERIALIZERS)
        # The framework stores the offset of what it could read only: this one would come again after each restart.
        self._checkpoints.store_offset(rejected.tp.topic, rejected.tp.partition, rejected.offset)
        return True

    def _processing_failed(self, error: Exception, row: Row | None, _: logging.Logger) -> bool:
        """Whether the loop may go on; a record at which ``transform()`` failed, or that became no row, is rejected."""
        if isinstance(error, ConnectorError) or row is None:
            return False
        hint = error.hint if isinstance(error, NotARowError) else "Correct transform() in app/transform.py"
        self._lake_sink.reject(_not_processed(error, row), hint)
        return True

    def _commit_before(self, error: DataError) -> None:
        """Bring what came before a bad record into the lake, so that a restart begins at that very record."""
        if error.record is not None:
            self._lake_sink.discard(*error.record)
        self._checkpoints.last_chance = True
        self._checkpoints.commit_checkpoint(force=True)

    def _on_assign(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        self._lake_sink.assign(_ours(topic_partitions))
        super()._on_assign(consumer, topic_partitions)
        # A rebalance during back-pressure forgets what was paused, and librdkafka keeps it paused for ever.
        self._consumer.resume(topic_partitions)
        logger.info("assigned: %s", _listed(topic_partitions))

    def _on_revoke(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        self._lake_sink.revoking(active=True)
        try:
            super()._on_revoke(consumer, topic_partitions)
        finally:
            self._lake_sink.revoking(active=False)
            self._lake_sink.unassign(_ours(topic_partitions))
            logger.info("given away: %s", _listed(topic_partitions))

    def _on_lost(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        super()._on_lost(consumer, topic_partitions)
        self._lake_sink.unassign(_ours(topic_partitions))
        # The old checkpoint holds offsets of rows that will never be written here.
        self._checkpoints.init_checkpoint()
        logger.warning("lost: %s; their new owner goes on from the last commit", _listed(topic_partitions))


def _ours(topic_partitions: list[KafkaTopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(tp.topic, tp.partition) for tp in topic_partitions]


def _listed(topic_partitions: list[KafkaTopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(_ours(topic_partitions))) or "nothing"


def _kafka_failed(error: Exception) -> bool:
    """Whether the loop may go on after an error of the Kafka client."""
    if not isinstance(error, KafkaConsumerException):
        return False
    kafka_error: KafkaError = error.error
    if kafka_error.code() in _LASTING_CONSUMER_ERRORS or kafka_error.fatal():
        raise FatalError(
            "consuming from Kafka",
            kafka_error.str(),
            "Check that the topic still exists and that the user may read it and its consumer group",
        ) from None
    logger.warning("Kafka: %s; going on", kafka_error.str())
    return True


def _not_deserialized(error: Exception, message: RawConfluentKafkaMessageProto) -> Rejected:
    kind, timestamp = message.timestamp()
    return Rejected(
        TopicPartition(str(message.topic()), int(message.partition() or 0)),
        int(message.offset() or 0),
        timestamp if kind != TIMESTAMP_NOT_AVAILABLE else None,
        message.key(),
        message.value(),
        message.headers(),
        f"it does not deserialize: {error}",
    )


def _not_processed(error: Exception, row: Row) -> Rejected:
    reason = str(error) if isinstance(error, NotARowError) else f"transform() raised {error!r}"
    tp = TopicPartition(row.topic, row.partition)
    return Rejected(tp, row.offset, known_timestamp(row.timestamp), row.key, row.value, row.headers, reason)
