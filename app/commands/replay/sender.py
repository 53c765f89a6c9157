"""Sends records of the dead letter to Kafka, with their bytes, headers and timestamps."""

import re
from collections.abc import Collection

from confluent_kafka import KafkaError, KafkaException
from quixstreams.kafka import Producer

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.model import Rejected
from app.service.customised import REPARTITIONED

REPLAYED_FROM = "quix-replayed-from"
PRODUCER_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,  # keeps the order, and tries of the client itself never double a record
    "message.max.bytes": 1_000_000_000,  # the topic's own limit is the one that counts
    "message.timeout.ms": 60_000,
}
_EARLIEST_MS = 1  # Kafka's client takes the timestamp 0 for none, and sends the time of now
_FLUSH_SECONDS = 1.0  # a signal is noticed between two flushes
_LASTING = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._UNKNOWN_PARTITION,
    }
)


class Sender:
    """Sends records, each to its own topic and partition if this group reads that topic, or all to the topic ``to``.

    ``topics`` are all there are, ``workspace`` is what the platform puts before their names.
    """

    def __init__(
        self,
        producer: Producer,
        topics: Collection[str],
        *,
        input_topic: str,
        group: str,
        workspace: str,
        to: str | None,
    ) -> None:
        self._producer = producer
        self._topics = frozenset(topics)
        self._input_topic = input_topic
        # After the group a topic is named that it is made of: the input topic, or another one of this kind.
        nested = rf"(?:repartition\.)+{re.escape(input_topic.replace('--', '.'))}\."
        names = rf"{REPARTITIONED}{re.escape(group)}--(?:{re.escape(input_topic)}--|{nested})"
        self._repartitioned = re.compile(names)
        self._workspace = workspace
        self._to = self._existing(to) if to else None
        self._failure: ConnectorError | None = None
        self.acknowledged = 0

    def send(self, record: Rejected) -> None:
        """Queue the record; an error also if one before it was not delivered."""
        tp, offset = record.tp, record.offset
        topic = self._to or self._own(tp.topic)
        origin = f"{tp.topic}/{tp.partition}/{offset}"

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                self.acknowledged += 1
            else:
                self._failure = self._failure or _translated(error, origin, topic)

        try:
            self._producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=[*(record.headers or ()), (REPLAYED_FROM, origin.encode())],  # type: ignore[list-item]
                partition=None if self._to else tp.partition,
                timestamp=_EARLIEST_MS if record.timestamp == 0 else record.timestamp,
                on_delivery=delivered,
            )
        except KafkaException as error:
            raise _translated(error.args[0], origin, topic) from None
        except BufferError:
            raise RetryableError(f"sending {origin} to topic {topic}", "Kafka takes no more records", _HINT) from None
        self._raise_failure()

    def finish(self) -> None:
        """Return once all records are acknowledged."""
        while self._producer.flush(_FLUSH_SECONDS):
            self._raise_failure()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure:
            raise self._failure

    def _own(self, topic: str) -> str:
        """The record's topic: a file of the dead letter may name any, for others may write to the store."""
        name = topic.removeprefix(f"{self._workspace}-") if self._workspace else topic
        if self._input_topic not in (topic, name) and not self._repartitioned.match(name):
            cause = f"the input topic is {self._input_topic}"
            raise ConfigError(f"sending records to topic {topic}", cause, "Name the topic with --to")
        return self._existing(topic)

    def _existing(self, topic: str) -> str:
        for name in (topic, f"{self._workspace}-{topic}"):
            if name in self._topics:
                return name
        raise ConfigError(f"finding topic {topic}", "it does not exist", "Create it, or name another with --to")


_HINT = "Run the command again; records sent before this one are then sent twice"


def _translated(error: KafkaError, origin: str, topic: str) -> ConnectorError:
    doing = f"sending {origin} to topic {topic}"
    if error.code() in _LASTING:
        hint = "Check the topic's settings, partitions and the user's rights, or name another topic with --to"
        return FatalError(doing, error.str(), hint)
    return RetryableError(doing, error.str(), _HINT)
