"""The quixstreams application, extended for a sink that writes in the background.

It overrides private methods of quixstreams 3.28.1. So that version is pinned, and a contract test fails when the
overridden code changes.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient
from quixstreams import Application
from quixstreams.checkpointing.exceptions import CheckpointProducerTimeout
from quixstreams.exceptions import PartitionAssignmentError
from quixstreams.kafka.exceptions import KafkaConsumerException, KafkaProducerDeliveryError
from quixstreams.models import RawConfluentKafkaMessageProto, Row, Topic, TopicManager

from app.consumer.assignment import Assignments
from app.consumer.broker import new_admin
from app.consumer.checkpoints import Checkpoints
from app.consumer.errors import of_rebalance, producing_failed, recovering_failed
from app.consumer.internal_topics import check_internal_rights, create_internal_topics, pretend_internal_topics
from app.consumer.login_errors import told_of_refusals
from app.consumer.other_sinks import OtherSinks
from app.consumer.rejections import CurrentMessage, refuse_too_big
from app.errors import ConfigError
from app.model import Message, TopicPartition
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)


class Loop(Protocol):
    """The methods that a running application calls; see ``app.consumer.loop.ConsumerLoop``."""

    @property
    def checkpoints(self) -> Checkpoints: ...
    def assigned(self, tps: Sequence[TopicPartition]) -> str: ...
    def claim(self, tps: Sequence[TopicPartition], token: str) -> None: ...
    def revoking(self, *, active: bool) -> None: ...
    def ended(self, tps: Sequence[TopicPartition]) -> None: ...
    def lost(self, tps: Sequence[TopicPartition]) -> None: ...
    def turn(self, executors: dict[str, Any]) -> None: ...
    def committed(self, offsets: Mapping[tuple[str, int], int]) -> None: ...
    def consuming_failed(self, error: Exception, message: Message | None) -> bool: ...
    def processing_failed(self, error: Exception, row: Row | None) -> bool: ...
    def stopping(self) -> None: ...


class LakeApplication(Application):
    """The application of quixstreams: first ``transform()`` builds on it, then it runs the connector's loop in its own.

    Args:
        assignments: the current ones.
        metrics: counts failed commits.
        max_record_bytes: the largest message that becomes a row.
        may_create: whether to create missing internal topics of the framework. If not, the application behaves as if
            they existed, and must not run.
        timings: those of commits.
        arguments: those of ``quixstreams.Application``.

    Attributes:
        checkpoints: the framework's processing context, in which dataframes are made.
        current: the message whose record is being processed.
        is_stopping: whether a stop was requested.
    """

    def __init__(
        self,
        *,
        assignments: Assignments,
        max_record_bytes: int,
        metrics: Metrics | None = None,
        may_create: bool = True,
        timings: Timings = DEFAULT,
        **arguments: Any,
    ) -> None:
        self._may_create = may_create
        self._max_record_bytes = max_record_bytes
        super().__init__(
            on_consumer_error=self._consuming_failed, on_processing_error=self._processing_failed, **arguments
        )
        self.current = CurrentMessage()
        self.is_stopping = False
        self._processing_context = self.checkpoints = Checkpoints.instead_of(
            self._processing_context,
            assignments=assignments,
            on_committed=self._committed,
            metrics=metrics or Metrics(),
            timings=timings,
        )
        # The framework's application has no argument for it; the client is created when the loop begins.
        self._consumer._user_error_cb = told_of_refusals(self._consumer._user_error_cb)
        self._does_more_than_rows = False
        self._other_sinks: OtherSinks | None = None
        # The loop cannot be an argument: it needs the sink, the pipeline and the claims, which are built after
        # transform() has built on the application. Only ``start`` sets it.
        self._started: Loop | None = None

    def built(self, *, is_untouched: bool) -> None:
        """Note that ``transform()`` has built on it, and whether it is untouched.

        Raises:
            FatalError: a right on a topic that it needs is missing.
        """
        if self._may_create:
            check_internal_rights(self.admin, self._topic_manager)
        self._does_more_than_rows = not is_untouched
        self._other_sinks = OtherSinks(self.checkpoints.sink_manager)

    def start(self, loop: Loop) -> None:
        """Connect the sinks that ``transform()`` has attached; ``run()`` then runs this loop.

        Raises:
            FatalError: one of the sinks fails.
        """
        self._started = loop
        if self._other_sinks:
            self._other_sinks.start()
        loop.checkpoints.has_started_sinks = True

    @property
    def internal_topics(self) -> Sequence[str]:
        """Names of the framework's internal topics on the broker."""
        repartition = self._topic_manager.repartition_topics.values()
        return [topic.name for topic in [*repartition, *self._topic_manager.changelog_topics_list]]

    def topic(self, *arguments: Any, **options: Any) -> Topic:
        """See ``Application.topic``; this topic refuses messages that are too big, before it deserializes them."""
        topic = super().topic(*arguments, **options)
        refuse_too_big(topic, self._max_record_bytes)
        return topic

    @cached_property
    def admin(self) -> AdminClient:
        """Asks the broker about topics and groups."""
        return new_admin(self.config.broker_address)

    @property
    def consumer(self) -> Any:
        """The consumer of quixstreams."""
        return self._consumer

    @property
    def keeps_state(self) -> bool:
        """Whether ``transform()`` keeps state or repartitions; known once it is built."""
        return bool(self._state_manager.stores or self._topic_manager.repartition_topics)

    @property
    def begins_at_commit(self) -> bool:
        """Whether consuming begins at the group's offset, even if the table is ahead of it.

        State, produced records and other sinks of ``transform()`` are only as far as that offset.
        """
        return self.keeps_state or self._does_more_than_rows

    @property
    def recovers_state(self) -> bool:
        """Whether state is being read from its changelog; the loop does not turn meanwhile. Safe from any thread."""
        return bool(self._state_manager.recovery_required)

    def request_stop(self) -> None:
        """Stop as soon as the current record is done; safe in a signal handler and before ``run()``."""
        self.is_stopping = True
        if self._started:
            self._started.stopping()
        self.stop()

    def run(self, *arguments: Any, **named: Any) -> Any:
        """See ``Application.run``; after ``start()``."""
        if self._started is None:
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
        except (CheckpointProducerTimeout, KafkaProducerDeliveryError, BufferError) as error:
            raise producing_failed(error) from None
        except PartitionAssignmentError as error:  # while state was recovered
            raise of_rebalance(error) from None
        except KafkaConsumerException as error:  # the same
            raise recovering_failed(error) from None

    def _setup_signal_handlers(self) -> None:
        """Signals are handled from the process's start on, and not only from here."""

    # --- called by the framework while it runs ----------------------------------------------------------------------

    @property
    def _loop(self) -> Loop:
        assert self._started is not None, "start() comes before run()"  # noqa: S101
        return self._started

    def _process_message(self, dataframe_composed: Any) -> None:
        self._loop.turn(dataframe_composed)

    def process_one(self, executors: dict[str, Any]) -> None:
        """Poll one message and process it, as the framework does at each turn of its loop."""
        super()._process_message(executors)  # type: ignore[no-untyped-call]

    def _committed(self, offsets: Mapping[tuple[str, int], int]) -> None:
        self._loop.committed(offsets)

    def _consuming_failed(
        self, error: Exception, message: RawConfluentKafkaMessageProto | None, _: logging.Logger
    ) -> bool:
        return self._loop.consuming_failed(error, message)  # type: ignore[arg-type] # it has come from Kafka's client

    def _processing_failed(self, error: Exception, row: Row | None, _: logging.Logger) -> bool:
        return self._loop.processing_failed(error, row)

    def _on_assign(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        if self.is_stopping:
            self._consumer.assign([])  # a member that leaves the group takes no partitions
            return
        if self._other_sinks:
            self._other_sinks.refuse_late_flush()
        tps = _ours(self._of_input(topic_partitions))
        token = self._loop.assigned(tps)
        for tp in topic_partitions:
            tp.offset = OFFSET_BEGINNING  # until its claim seeks; without an offset, a new group would be an error
        super()._on_assign(consumer, topic_partitions)
        self._loop.claim(tps, token)
        logger.info("assigned: %s", _listed(topic_partitions))

    def _of_input(self, topic_partitions: list[KafkaTopicPartition]) -> list[KafkaTopicPartition]:
        """The partitions of input topics: without those of changelogs, which a ``transform()`` with state has."""
        changelogs = {topic.name for topic in self._topic_manager.changelog_topics_list}
        return [tp for tp in topic_partitions if tp.topic not in changelogs]

    def _on_revoke(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        self._loop.revoking(active=True)
        try:
            super()._on_revoke(consumer, topic_partitions)
        finally:
            self._loop.revoking(active=False)
            self._loop.ended(_ours(topic_partitions))
            logger.info("given away: %s", _listed(topic_partitions))

    def _on_lost(self, consumer: Any, topic_partitions: list[KafkaTopicPartition]) -> None:
        super()._on_lost(consumer, topic_partitions)
        self._loop.lost(_ours(topic_partitions))
        logger.warning("lost: %s; their new owner goes on from the last commit", _listed(topic_partitions))


def _ours(topic_partitions: list[KafkaTopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(tp.topic, tp.partition) for tp in topic_partitions]


def _listed(topic_partitions: list[KafkaTopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(_ours(topic_partitions))) or "nothing"
