"""The quixstreams application, with what a sink that writes in the background needs from it.

It overrides private methods of quixstreams 3.28.1, which is why that version is pinned and a contract test fails when
the code overridden here changes.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient
from quixstreams import Application
from quixstreams.checkpointing.exceptions import CheckpointProducerTimeout
from quixstreams.context import message_context
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError
from quixstreams.models import (
    RawConfluentKafkaMessageProto,
    Row,
    SuccessfulConfluentKafkaMessageProto,
    Topic,
    TopicManager,
)
from quixstreams.sources import BaseSource
from quixstreams.state.exceptions import StateTransactionError

from app.bad_records.refusals import not_decompressed, not_deserialized
from app.consumer.batch_poll import BatchPoll
from app.consumer.broker import new_admin
from app.consumer.checkpoints import Checkpoints
from app.consumer.errors import (
    cannot_be_decompressed,
    consuming_failed,
    of_rebalance,
    producing_failed,
    recovering_failed,
)
from app.consumer.internal_topics import check_internal_rights, create_internal_topics, pretend_internal_topics
from app.consumer.listening import Listening
from app.consumer.other_sinks import OtherSinks
from app.consumer.paused_partitions import Claiming, PausedPartitions
from app.consumer.rejections import not_processed, refuse_too_big
from app.consumer.sink import LakeSink
from app.consumer.topology import is_untouched
from app.consumer.user_code import NotedStream
from app.errors import ConfigError, ConnectorError, DataError
from app.journal.group_offsets import mark_of
from app.journal.start_offset import Start
from app.model import Message, TopicPartition
from app.monitoring.metrics import Metrics

logger = logging.getLogger(__name__)

_TURN_MESSAGES = 64
_TURN_SECONDS = 0.05
# What was produced for an earlier record, or the framework itself, has failed; or Kafka does not take any more.
_NOT_OF_THE_RECORD = (ConnectorError, KafkaProducerDeliveryError, StateTransactionError, BufferError)


class PartitionClaims(Claiming, Protocol):
    """What claims partitions, and keeps their journals; see ``app.journal.claims.Claims``."""

    def advance(self, ends: Mapping[str, int]) -> None: ...
    def topic_id(self, tp: TopicPartition) -> str: ...


class LakeApplication(Application):
    """Tells the sink of assignments and of each turn of the loop, and makes checkpoints when the sink is full.

    Args:
        lake_sink: the sink that all rows go to.
        on_turn: called at each turn of the consumer's loop.
        metrics: told where each partition begins, how far it is committed, and when it is given away.
        may_create: whether the framework's internal topics are created where they are missing; else they are taken for
            created, and it must not run.
        arguments: those of ``quixstreams.Application``.
    """

    _dataframes: type[StreamingDataFrame] = StreamingDataFrame

    def __init__(
        self,
        *,
        lake_sink: LakeSink,
        on_turn: Callable[[], None],
        metrics: Metrics | None = None,
        may_create: bool = True,
        **arguments: Any,
    ) -> None:
        self._lake_sink = lake_sink
        self._may_create = may_create
        self._metrics = metrics or Metrics()
        super().__init__(
            on_consumer_error=self._consuming_failed,
            on_processing_error=self._processing_failed,
            **arguments,
        )
        self._on_turn = on_turn
        self._stop_requested = False
        self._is_paused = False
        self._has_begun = False  # a message came in this step of the loop
        self._message: Message | None = None  # the one that is processed, where it is one record
        self._composed: dict[str, Callable[..., None]] | None = None
        self._executors: dict[str, Callable[..., None]] = {}
        former = self._processing_context
        self._processing_context = self._checkpoints = Checkpoints(
            **{field.name: getattr(former, field.name) for field in dataclasses.fields(former) if field.init}
        )
        self._poll = self._consumer.poll
        self._consumer.poll = self._polled  # type: ignore[method-assign]
        lake_sink.on_sealed = self._checkpoints.sealed
        self._checkpoints.on_committed = self._committed
        self._checkpoints.on_failed_try = lambda: self._metrics.failed_try("commit")
        # The framework takes it for no argument of an application; the client is made when the loop begins.
        self._consumer._consumer_config["on_commit"] = self._checkpoints.answered
        self._commit: Callable[..., Any] = self._consumer.commit
        setattr(self._consumer, "commit", self._commit_marked)  # noqa: B010 - the framework commits by itself too
        self._does_more_than_rows = False
        self._other_sinks: OtherSinks | None = None
        self._claims: PartitionClaims | None = None
        self._raw_lane: BatchPoll | None = None

    def connect(self, claims: PartitionClaims) -> None:
        """Give the application what claims its partitions, before it runs."""
        self._claims = claims
        self._paused_partitions = PausedPartitions(self._consumer, claims, self._begins)

    def dataframe(self, topic: Topic | None = None, source: BaseSource | None = None) -> StreamingDataFrame:
        """See ``Application.dataframe``; its operations remember which line of the user's code they come from."""
        if source is not None:
            topic = self.add_source(source, topic)
        if topic is None:
            raise ValueError("one of `source` or `topic` is required")
        made = self._dataframes(
            topic,
            topic_manager=self._topic_manager,
            processing_context=self._processing_context,
            registry=self._dataframe_registry,
            stream=NotedStream(),
        )
        self._dataframe_registry.register_root(made)
        return made

    def built(self, given: StreamingDataFrame, returned: StreamingDataFrame) -> bool:
        """Take what ``transform()`` has made of the dataframe; whether that is nothing at all.

        Raises:
            FatalError: a right on a topic that it needs is missing.
        """
        if self._may_create:
            check_internal_rights(self.admin, self._topic_manager)
        is_nothing = is_untouched(self, given, returned)
        self._does_more_than_rows = not is_nothing
        self._other_sinks = OtherSinks(self._checkpoints.sink_manager)
        return is_nothing

    def start_sinks(self) -> None:
        """Connect the sinks that ``transform()`` has attached, before the connector tells that it is connected.

        Raises:
            FatalError: one of them fails.
        """
        if self._other_sinks:
            self._other_sinks.start()
        self._checkpoints.has_started_sinks = True

    @property
    def internal_topics(self) -> Sequence[str]:
        """Names of the topics that the framework keeps for itself, as the broker knows them."""
        repartition = self._topic_manager.repartition_topics.values()
        return [topic.name for topic in [*repartition, *self._topic_manager.changelog_topics_list]]

    def read_whole_batches(self) -> None:
        """Hand messages to the sink as they come, for they need no ``transform()``; after ``connect()``.

        There is neither state nor a produced record then that has to be safe before offsets are committed.
        """
        self._checkpoints.lake = self._lake_sink
        self._raw_lane = BatchPoll(
            consumer=self._consumer,
            sink=self._lake_sink,
            checkpoints=self._checkpoints,
            max_record_bytes=self._lake_sink.max_record_bytes,
            waits=self._paused_partitions.waits,
            put_right=self._paused_partitions.put_right,
            failed=consuming_failed,
            pass_over=self._pass_over,
        )

    def keep_messages(self, topic: Topic) -> None:
        """Keep the message of each record of this topic at hand, for the framework hands on what it has made of it."""
        deserialize = topic.row_deserialize

        def deserialize_and_keep(message: SuccessfulConfluentKafkaMessageProto) -> Row | list[Row] | None:
            self._message = None
            made = deserialize(message)
            self._message = message if isinstance(made, Row) else None  # type: ignore[assignment] # it has come
            return made

        vars(topic)["row_deserialize"] = deserialize_and_keep

    def topic(self, *arguments: Any, **options: Any) -> Topic:
        """A topic whose messages are refused before they take more memory than there is."""
        topic = super().topic(*arguments, **options)
        refuse_too_big(topic, self._lake_sink.max_record_bytes)
        return topic

    def listening(self) -> Listening:
        """Tells which partitions can be heard right now; after ``connect()``."""
        return Listening(self._consumer, self._paused_partitions.waits)

    @cached_property
    def admin(self) -> AdminClient:
        """Asks the broker about topics and groups."""
        return new_admin(self.config.broker_address)

    @property
    def keeps_state(self) -> bool:
        """Whether ``transform()`` does, or repartitions, in stores and topics of the framework; once it is built."""
        return bool(self._state_manager.stores or self._topic_manager.repartition_topics)

    @property
    def begins_at_commit(self) -> bool:
        """Whether consuming begins at the group's offset, also where the table is ahead of it.

        What ``transform()`` does beside rows, such as sending to a topic or to another sink, is only as far as that.
        """
        return self.keeps_state or self._does_more_than_rows

    @property
    def recovers_state(self) -> bool:
        """Whether that state is read from its changelog, while which the loop does not turn; safe from any thread."""
        return bool(self._state_manager.recovery_required)

    @property
    def has_claimed_all(self) -> bool:
        """Whether all assigned partitions are claimed; the others are paused."""
        return self._paused_partitions.is_complete

    @property
    def is_paused(self) -> bool:
        """Whether the destination does not take what comes, so that nothing is consumed; safe from any thread."""
        return self._is_paused

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Stop as soon as the current record is done; safe in a signal handler and before ``run()``."""
        self._stop_requested = True
        self._checkpoints.last_chance = True
        self._lake_sink.stopping()
        self.stop()

    def run(self, *arguments: Any, **named: Any) -> Any:
        """See ``Application.run``; after ``connect()``."""
        if self._claims is None:
            raise ConfigError(
                "building the stream", "transform() calls app.run()", "Remove that: the connector runs what it returns"
            )
        return super().run(*arguments, **named)

    def _get_topic_manager(self) -> TopicManager:
        manager = super()._get_topic_manager()
        if self._may_create:
            create_internal_topics(manager)
        else:
            pretend_internal_topics(manager)
        return manager

    def _run_dataframe(self, sink: Any = None) -> None:
        try:
            super()._run_dataframe(sink)
        except ConnectorError:
            if not self.begins_at_commit:  # what is done beside rows would lack these records
                self._checkpoints.commit_delivered(self._lake_sink.is_delivered)
            raise
        except (CheckpointProducerTimeout, KafkaProducerDeliveryError, BufferError) as error:
            raise producing_failed(error) from None
        except PartitionAssignmentError as error:  # while state was recovered
            raise of_rebalance(error) from None
        except KafkaConsumerException as error:  # the same
            raise recovering_failed(error) from None

    def _setup_signal_handlers(self) -> None:
        """Signals are handled from the process's start on, and not only from here."""

    def _process_message(self, dataframe_composed: Any) -> None:
        if self._stop_requested:  # a stop before the loop began is forgotten by the framework
            self.stop()
            return
        self._paused_partitions.turn()
        self._check_after_pause()
        if self._checkpoints.lake and self._lake_sink.is_full and self._lake_sink.wait_for_room():
            self._on_turn()
            return  # the framework's loop goes on: signals and commits
        try:
            if self._raw_lane:
                self._consume(self._raw_lane)
            else:
                self._process_messages(self._watched(dataframe_composed))
        except DataError as error:
            self._commit_before(error)
            raise
        except PartitionAssignmentError as error:
            raise of_rebalance(error) from None
        self._lake_sink.turn()
        if self._lake_sink.is_full and not (self._checkpoints.lake and self._lake_sink.wait_for_room()):
            self._checkpoints.commit_checkpoint(force=True)
        self._on_turn()

    def _check_after_pause(self) -> None:
        was_paused, self._is_paused = self._is_paused, bool(self._consumer.backpressured_tps)
        if was_paused and not self._is_paused:
            self._paused_partitions.check_topics(self._lake_sink.assigned)

    def _process_messages(self, executors: dict[str, Callable[..., None]]) -> None:
        """Several messages, if they come without a pause: what else there is to do in a turn costs as much as one."""
        until = time.monotonic() + _TURN_SECONDS
        for _ in range(_TURN_MESSAGES):
            self._has_begun = False
            super()._process_message(executors)  # type: ignore[no-untyped-call]
            is_over = not self._has_begun or self._stop_requested or self._lake_sink.is_full
            if is_over or self._state_manager.recovery_required or time.monotonic() > until:
                return

    def _consume(self, lane: BatchPoll) -> None:
        """What a turn of the framework's loop does, with as many messages as there are."""
        self._producer.poll(self._config.producer_poll_timeout)
        consumed = lane.turn()
        self._run_tracker.set_message_consumed(consumed)
        if consumed:
            self._producer._broker_available()  # type: ignore[no-untyped-call]
            self._consumer._broker_available()  # type: ignore[no-untyped-call]

    def _watched(self, composed: dict[str, Callable[..., None]]) -> dict[str, Callable[..., None]]:
        """The same executors, telling the sink where each record begins."""
        if self._composed is not composed:
            self._composed = composed
            self._executors = {name: self._beginning(execute) for name, execute in composed.items()}
        return self._executors

    def _beginning(self, execute: Callable[..., None]) -> Callable[..., None]:
        begin = self._lake_sink.begin_record

        def run(value: Any, key: Any, timestamp: int, headers: Any) -> None:
            self._has_begun = True
            message = message_context()
            if self._comes_in_turn(message.topic, message.partition, message.offset):
                begin(self._message)
                try:
                    execute(value, key, timestamp, headers)
                except SystemExit as error:  # of a user's function: it would end the process without a word
                    ended = RuntimeError(f"it called sys.exit({error.code!r})")
                    raise ended.with_traceback(error.__traceback__) from None

        return run

    def _comes_in_turn(self, topic: str, partition: int, offset: int) -> bool:
        expected = self._checkpoints.expected(topic, partition)
        if offset < expected:
            self._paused_partitions.put_right(TopicPartition(topic, partition), offset, expected)
        return offset >= expected

    def _consuming_failed(
        self, error: Exception, message: RawConfluentKafkaMessageProto | None, _: logging.Logger
    ) -> bool:
        """Whether the loop may go on; a message that does not deserialize is rejected and counts as consumed."""
        if isinstance(error, KafkaConsumerException):
            if message is not None and cannot_be_decompressed(error):
                self._pass_over(message)  # type: ignore[arg-type]
                return True
            return consuming_failed(error)
        if message is None:
            return False
        refusal = not_deserialized(error, message)  # type: ignore[arg-type] # it has come without an error of Kafka's
        rejected = refusal.rejected
        if self._comes_in_turn(*rejected.tp, rejected.offset):
            self._lake_sink.begin_record()
            self._lake_sink.reject(rejected, refusal.hint)
            # The framework stores the offset of what it could read only: this one would come again after each restart.
            self._checkpoints.store_offset(*rejected.tp, rejected.offset)
        return True

    def _polled(self, timeout: float | None = None) -> RawConfluentKafkaMessageProto | None:
        """As the framework polls, which keeps of a failed message the error alone."""
        message = self._poll(timeout)
        error = message.error() if message else None
        if message is None or error is None or not cannot_be_decompressed(KafkaConsumerException(error=error)):
            return message
        self._pass_over(message)  # type: ignore[arg-type]
        return None

    def _pass_over(self, message: Message) -> None:
        """Go on behind a message that Kafka's client cannot decompress; what is known of it goes to the dead letter.

        Where several were compressed together, the client fails again until the last of them is passed over.
        """
        tp = TopicPartition(message.topic(), message.partition())
        if not self._lake_sink.is_assigned_to(tp) or self._paused_partitions.waits(tp):
            return
        refusal = not_decompressed(message, max(message.offset(), self._checkpoints.expected(*tp)))
        offset = refusal.rejected.offset
        self._lake_sink.begin_record()
        self._lake_sink.reject(refusal.rejected, refusal.hint)
        self._checkpoints.store_offset(*tp, offset)
        self._consumer.seek(KafkaTopicPartition(*tp, offset + 1))

    def _processing_failed(self, error: Exception, row: Row | None, _: logging.Logger) -> bool:
        """Whether the loop may go on; a record at which ``transform()`` failed, or that became no row, is rejected."""
        if isinstance(error, _NOT_OF_THE_RECORD) or row is None:
            return False
        refusal = not_processed(error, row, self._message_of(row))
        self._lake_sink.reject(refusal.rejected, refusal.hint)
        return True

    def _message_of(self, row: Row) -> Message | None:
        message = self._message
        if message is None or (message.topic(), message.partition()) != (row.topic, row.partition):
            return None  # it has come from a topic of the framework's own
        return message if message.offset() == row.offset else None

    def _commit_before(self, error: DataError) -> None:
        """Bring what came before a bad record into the lake, so that a restart begins at that very record.

        Not so with state, for that has what the bad record did to it: a restart begins at the last commit then.
        """
        if self.keeps_state:
            return
        if error.record is not None:
            self._lake_sink.discard(*error.record)
        self._checkpoints.last_chance = True
        self._checkpoints.commit_checkpoint(force=True)

    def _on_assign(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        if self._other_sinks:
            self._other_sinks.refuse_late_flush()
        ours = self._of_input(topic_partitions)
        tokens = self._lake_sink.assign(_ours(ours))
        for tp in topic_partitions:
            tp.offset = OFFSET_BEGINNING  # until its claim says where: without any, a new group would be an error
        super()._on_assign(consumer, topic_partitions)
        self._checkpoints.expect_anything()
        self._paused_partitions.begin(tokens)
        logger.info("assigned: %s", _listed(topic_partitions))

    def _of_input(self, topic_partitions: list[KafkaTopicPartition]) -> list[KafkaTopicPartition]:
        """Those that are not of the framework's own topics, where a transform() that keeps state logs its changes."""
        changelogs = {topic.name for topic in self._topic_manager.changelog_topics_list}
        return [tp for tp in topic_partitions if tp.topic not in changelogs]

    def _begins(self, tp: TopicPartition, start: Start) -> None:
        self._checkpoints.expect(*tp, start.offset)
        self._lake_sink.replay(tp, start.offset, start.replayed_to)
        self._metrics.begins(tp, start.offset)

    def _end(self, tps: Sequence[TopicPartition]) -> None:
        self._metrics.ended(tps)
        self._paused_partitions.end(tps)
        self._lake_sink.unassign(tps)

    def _committed(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """The checkpoint is through; after a flush that asked for a pause nothing was committed."""
        if self._lake_sink.last_flush_ok and self._claims:
            self._metrics.committed({TopicPartition(*tp): offset + 1 for tp, offset in offsets.items()})
            tokens = {self._lake_sink.token(TopicPartition(*tp)): offset for tp, offset in offsets.items()}
            self._claims.advance({token: offset for token, offset in tokens.items() if token})

    def _commit_marked(self, *, offsets: list[KafkaTopicPartition], asynchronous: bool) -> Any:
        """Commit, and note beside each offset that it is ours: see ``app.journal.group_offsets``."""
        marked = [
            KafkaTopicPartition(tp.topic, tp.partition, tp.offset, mark_of(tp.offset, self._topic_id(tp)))
            for tp in offsets
        ]
        return self._commit(offsets=marked, asynchronous=asynchronous)

    def _topic_id(self, tp: KafkaTopicPartition) -> str:
        return self._claims.topic_id(TopicPartition(tp.topic, tp.partition)) if self._claims else ""

    def _on_revoke(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        self._lake_sink.revoking(active=True)
        try:
            super()._on_revoke(consumer, topic_partitions)
        finally:
            self._lake_sink.revoking(active=False)
            self._end(_ours(topic_partitions))
            logger.info("given away: %s", _listed(topic_partitions))

    def _on_lost(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        super()._on_lost(consumer, topic_partitions)
        self._end(_ours(topic_partitions))
        # The old checkpoint holds offsets of rows that will never be written here.
        self._checkpoints.init_checkpoint()
        logger.warning("lost: %s; their new owner goes on from the last commit", _listed(topic_partitions))


def _ours(topic_partitions: list[KafkaTopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(tp.topic, tp.partition) for tp in topic_partitions]


def _listed(topic_partitions: list[KafkaTopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(_ours(topic_partitions))) or "nothing"
