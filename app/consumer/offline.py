"""The quixstreams application without a broker: processes given records, and sends nothing.

All topics count as existing, with one partition each. State is kept in a folder and has no changelog.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.internal_consumer import InternalConsumer
from quixstreams.internal_producer import InternalProducer
from quixstreams.kafka import Consumer, Producer
from quixstreams.models import Row, Topic, TopicConfig, TopicManager
from quixstreams.sinks import BaseSink
from quixstreams.sources import BaseSource

from app.consumer.application import LakeApplication
from app.consumer.internal_topics import as_created
from app.consumer.sink import LakeSink
from app.errors import ConfigError
from app.journal.claims import Claim
from app.journal.start_offset import Start
from app.model import Message, TopicPartition

_ANY_TOPIC = {"retention.ms": "604800000", "retention.bytes": "-1", "cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that ``transform()`` would have sent to the topic, or to the sink of the class, with the name ``to``."""

    to: str
    key: Any
    value: Any


@dataclass(slots=True)
class GivenMessage:
    """A record as Kafka's client would give it; see ``app.model.Message``."""

    of_topic: str
    at: int
    raw_value: bytes | None
    raw_key: bytes | None
    timestamp_ms: int
    raw_headers: list[tuple[str, bytes]] | None

    def __len__(self) -> int:
        return len(self.raw_value or b"")

    def topic(self) -> str:
        return self.of_topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.timestamp_ms

    def key(self) -> bytes | None:
        return self.raw_key

    def value(self) -> bytes | None:
        return self.raw_value

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self.raw_headers

    def set_headers(self, value: list[tuple[str, bytes]]) -> None:
        self.raw_headers = value

    def leader_epoch(self) -> int | None:
        return None

    def error(self) -> None:
        """It came without one."""


class OfflineDataFrame(StreamingDataFrame):
    """Attaches only the lake's sink: other sinks would write to their destinations."""

    on_sent: ClassVar[Callable[[Sent], None]]

    def sink(self, sink: BaseSink) -> None:
        """See ``StreamingDataFrame.sink``."""
        if isinstance(sink, LakeSink):
            super().sink(sink)
            return
        name, on_sent = type(sink).__name__, type(self).on_sent
        self.apply(lambda value, key, *_: on_sent(Sent(name, key, value)), metadata=True)  # a branch, as there


class OfflineApplication(LakeApplication):
    """Runs on the records that it is given, and stops after the last.

    Args:
        records: the messages of the input topic, in turn.
        on_sent: called with each record that would have been sent elsewhere.
        arguments: those of ``LakeApplication``.
    """

    def __init__(self, *, records: Iterator[Message], on_sent: Callable[[Sent], None], **arguments: Any) -> None:
        self._given = records
        self._on_sent = on_sent
        self._dataframes = type("Dataframe", (OfflineDataFrame,), {"on_sent": staticmethod(on_sent)})
        super().__init__(**arguments, may_create=False, use_changelog_topics=False)

    def dataframe(self, topic: Topic | None = None, source: BaseSource | None = None) -> StreamingDataFrame:
        """See ``Application.dataframe``; this one makes an ``OfflineDataFrame``."""
        if source is not None:
            topic = self.add_source(source, topic)
        if topic is None:
            raise ValueError("one of `source` or `topic` is required")
        made: StreamingDataFrame = self._dataframes(
            topic,
            topic_manager=self._topic_manager,
            processing_context=self._processing_context,
            registry=self._dataframe_registry,
        )
        self._dataframe_registry.register_root(made)
        return made

    def _get_topic_manager(self) -> TopicManager:
        manager = super()._get_topic_manager()
        manager._fetch_topic = _existing  # type: ignore[method-assign]
        return manager

    def _get_internal_consumer(self, *_: Any, **named: Any) -> InternalConsumer:
        arguments = {"broker_address": self._config.broker_address, "consumer_group": self._config.consumer_group}
        return _GivenConsumer(self._given, self.request_stop, **arguments, auto_offset_reset="error", **_known(named))

    def _get_internal_producer(self, *_: Any, **__: Any) -> InternalProducer:
        return _RecordingProducer(self._config.broker_address, self._on_sent)

    def get_producer(self, transactional: bool = False) -> Producer:  # noqa: ARG002 - as in Application
        """See ``Application.get_producer``; this one passes records to ``on_sent``."""
        return _PlainProducer(self._config.broker_address, self._on_sent)

    def get_consumer(self, auto_commit_enable: bool = True) -> Consumer:  # noqa: ARG002 - as in Application
        """Raises ``ConfigError``: there is nothing to consume from."""
        raise ConfigError("making a consumer", "there is no broker", "Only a running connector has one")


class NoJournals:
    """Claims each partition at once, from its first record on; in place of ``app.journal.claims.Claims``."""

    def __init__(self) -> None:
        self._begun: dict[TopicPartition, str] = {}

    def begin(self, tps: Collection[TopicPartition], token: str, closed: str | None = None) -> None:  # noqa: ARG002
        self._begun |= dict.fromkeys(tps, token)

    def finished(self) -> list[Claim]:
        begun, self._begun = self._begun, {}
        return [Claim(tp, token, Start(0)) for tp, token in begun.items()]

    def is_same_topic(self, _: TopicPartition) -> bool:
        return True

    def check(self) -> None:
        """Neither topic nor group change."""


class _GivenConsumer(InternalConsumer):
    def __init__(self, records: Iterator[Message], ended: Callable[[], None], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._records = records
        self._ended = ended
        self._on_assign: Callable[..., None] | None = None
        self._tps: list[KafkaTopicPartition] = []

    def subscribe(self, topics: list[Topic], on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None) -> None:  # noqa: ARG002 - as in InternalConsumer
        self._topics = {topic.name: topic for topic in topics}
        self._on_assign = on_assign
        self._tps = [KafkaTopicPartition(topic.name, 0) for topic in topics]

    def poll_row(self, timeout: float | None = None, buffered: bool = False) -> Row | list[Row] | None:  # noqa: ARG002
        return super().poll_row(timeout, buffered=False)  # there is one topic whose records could be put in order

    def poll(self, timeout: float | None = None) -> Any:  # noqa: ARG002 - as in BaseConsumer
        if self._on_assign:
            begin, self._on_assign = self._on_assign, None
            begin(self, self._tps)
            return None
        message = next(self._records, None)
        if message is None:
            self._ended()
        return message

    def assignment(self) -> list[KafkaTopicPartition]:
        return self._tps

    def committed(self, partitions: list[KafkaTopicPartition], timeout: float | None = None) -> Any:  # noqa: ARG002
        return partitions

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 0

    def position(self, partitions: list[KafkaTopicPartition]) -> list[KafkaTopicPartition]:
        return partitions

    def commit(self, *_: Any, **__: Any) -> Any:
        return []

    def _nothing(self, *_: Any, **__: Any) -> None: ...

    assign = pause = resume = seek = unsubscribe = close = resume_backpressured = _nothing


class _RecordingProducer(InternalProducer):
    def __init__(self, broker: Any, on_sent: Callable[[Sent], None]) -> None:
        super().__init__(broker)
        self._producer = _PlainProducer(broker, on_sent)
        self._on_sent = on_sent

    def produce_row(self, row: Row, topic: Topic, key: Any = None, *_: Any, **__: Any) -> None:
        topic.row_serialize(row=row, key=key)  # raises for a record that cannot be serialized
        self._on_sent(Sent(topic.name, key, row.value))


class _PlainProducer(Producer):
    def __init__(self, broker: Any, on_sent: Callable[[Sent], None]) -> None:
        super().__init__(broker)
        self._on_sent = on_sent

    def produce(self, topic: str, value: Any = None, key: Any = None, *_: Any, **__: Any) -> None:
        self._on_sent(Sent(topic, key, value))

    def poll(self, timeout: float = 0) -> int:  # noqa: ARG002 - as in Producer
        return 0

    def flush(self, timeout: float | None = None) -> int:  # noqa: ARG002 - as in Producer
        return 0

    def __exit__(self, *_: Any) -> None:
        """Nothing waits to be sent."""


def _existing(topic: Topic) -> Topic:
    found = as_created(topic)
    found.broker_config = TopicConfig(num_partitions=1, replication_factor=1, extra_config=dict(_ANY_TOPIC))
    return found


def _known(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name == "on_error"}


def messages(topic: str, records: Sequence[tuple[Any, ...]]) -> Iterator[GivenMessage]:
    """One message for each (value, key, timestamp, headers), all as Kafka has them."""
    return (GivenMessage(topic, at, *record) for at, record in enumerate(records))
