"""Returns arguments for quixstreams' application in the framework's lane, runs it, and translates its errors.

The connector uses only public names: the callbacks for errors and messages, and librdkafka's statistics. Statistics
arrive while the client polls, even without messages.
"""

import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException
from quixstreams import Application, message_context
from quixstreams.checkpointing.exceptions import CheckpointConsumerCommitError
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.kafka.exceptions import KafkaConsumerException
from quixstreams.models import Row

from app.bad_records.refusals import not_deserialized
from app.consumer.errors import NOT_OF_THE_RECORD, ended, not_processed, translated
from app.consumer.framework.current import CurrentMessage
from app.consumer.framework.sink import RowSink
from app.errors import ConnectorError, FatalError, RetryableError
from app.kafka.errors import FROM_LAST_COMMIT, cannot_be_decompressed, consuming_failed, error_of, producing_failed
from app.model import TopicPartition

_TICK_MS = 1_000


class Callbacks:
    """Passes the application's callbacks to the sink. The sink is created later, after ``transform()`` was called.

    ``is_kafka_there`` is true if a broker is connected according to the last statistics. ``assigned`` is the number of
    assigned partitions, including partitions of changelogs. ``on_tick`` sets ``assignment``.
    """

    def __init__(self, current: CurrentMessage, on_tick: Callable[[], None] = lambda: None) -> None:
        self._current = current
        self._on_tick = on_tick
        self._rebalances = 0
        self.sink: RowSink | None = None
        self.is_kafka_there = True
        self.assigned = 0
        self.assignment: Collection[TopicPartition] = ()

    def arguments(self, of_consumer: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the application's arguments. ``of_consumer`` contains further properties of the consumer."""
        return {
            "on_consumer_error": self._not_consumed,
            "on_processing_error": self._not_processed,
            "on_producer_error": self._not_produced,
            "on_message_processed": self._processed,
            # If the group had no offset, ``latest`` would skip records. See ``app.consumer.commits``.
            "auto_offset_reset": "earliest",
            "consumer_extra_config": {**of_consumer, "statistics.interval.ms": _TICK_MS, "stats_cb": self._counted},
        }

    def notice_records(self, dataframe: StreamingDataFrame) -> None:
        """Notify the sink of each record of the input topic before ``transform()`` receives it."""
        dataframe.update(self._begins, metadata=True)

    @property
    def _sink(self) -> RowSink:
        assert self.sink is not None, "the application runs"  # noqa: S101
        return self.sink

    # --- called by quixstreams --------------------------------------------------------------------------------------

    def _begins(self, _: Any, __: Any, timestamp: int, ___: Any) -> None:
        self._sink.begin_record(message_context(), timestamp)

    def _processed(self, topic: str, partition: int, offset: int) -> None:
        self._sink.message_processed(TopicPartition(topic, partition), offset)

    def _not_consumed(self, error: Exception, message: Any, _: logging.Logger) -> bool:
        if isinstance(error, ConnectorError | CheckpointConsumerCommitError):  # raised by a tick or by a revocation
            return False
        if message is None and isinstance(error, SystemError):
            # After a failed rebalance, the client called another callback, and lost the error of the rebalance.
            raise RetryableError("rebalancing", "an error that the Kafka client does not report", FROM_LAST_COMMIT)
        if cannot_be_decompressed(error):
            raise FatalError(
                "consuming from Kafka",
                f"the Kafka client cannot decompress a message: {error}",
                "Make it smaller at its producer, or set the group's offset to the next message. "
                "With an unchanged transform() the connector skips it",
            )
        if message is None or isinstance(error, KafkaConsumerException):
            return consuming_failed(error)
        self._sink.reject(not_deserialized(error, message), is_deserialized=False)
        return True

    def _not_processed(self, error: Exception, row: Row | None, _: logging.Logger) -> bool:
        if isinstance(error, NOT_OF_THE_RECORD) or row is None:
            return False
        message = self._current.of(row.topic, row.partition, row.offset)
        self._sink.reject(not_processed(error, row, message), is_deserialized=True)
        return True

    def _not_produced(self, error: Exception, _: Row | None, __: logging.Logger) -> bool:
        if isinstance(error, KafkaException) and error_of(error) is not None:  # the record does not cause this error
            raise producing_failed(error) from None
        return False

    def _counted(self, statistics: str) -> None:
        sink = self.sink
        if sink is None or not sink.thread.is_polling:  # the statistics of a consumer that transform() has created
            return
        values = json.loads(statistics)
        self.is_kafka_there = any(broker.get("state") == "UP" for broker in values.get("brokers", {}).values())
        group = values.get("cgrp")
        if group is None:  # the statistics of a consumer that has not subscribed
            return
        former, self._rebalances = self._rebalances, group["rebalance_cnt"]
        self.assigned = group["assignment_size"]
        self._on_tick()
        sink.tick(is_stable=former == self._rebalances)


def run(application: Application) -> None:
    try:
        application.run()
    except Exception as error:
        raise translated(error) from error
    except BaseException as error:  # noqa: BLE001 - errors other than `Exception` end the process too
        raise ended(error) from None
