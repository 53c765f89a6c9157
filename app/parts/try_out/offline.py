"""Runs quixstreams without Kafka, for ``python main.py try`` and ``check``. Nothing is sent to another process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from quixstreams import Application
from quixstreams.models import Deserializer, Row, SerializationContext, Topic, TopicAdmin, TopicConfig, TopicManager
from quixstreams.sinks import BaseSink

from app.config.settings import Settings
from app.consumer.plain.transformer import Transformer
from app.delivery.batch_limits import BatchLimits
from app.service.formats import Formats
from app.service.user_transform import Customised
from app.timings import DEFAULT

_ANY_TOPIC = {"retention.ms": "604800000", "retention.bytes": "-1", "cleanup.policy": "delete"}
_ANSWER_SECONDS = 30.0


class AnyTopic(TopicAdmin):
    """Reports that each topic exists with this number of partitions. No broker is queried."""

    def __init__(self, partitions: int) -> None:
        super().__init__("")
        self._partitions = partitions

    def inspect_topics(self, topic_names: list[str], timeout: float = 30) -> dict[str, TopicConfig | None]:  # noqa: ARG002 - as in TopicAdmin
        return {name: TopicConfig(self._partitions, 1, dict(_ANY_TOPIC)) for name in topic_names}


class OfflineBroker(AnyTopic):
    """The mock broker of librdkafka, which runs in this process at ``address``. The broker stops with this object."""

    def __init__(self) -> None:
        super().__init__(1)
        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0})
        (broker,) = self._producer.list_topics(timeout=_ANSWER_SECONDS).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def inspect_topics(self, topic_names: list[str], timeout: float = 30) -> dict[str, TopicConfig | None]:
        for name in topic_names:
            self._producer.list_topics(name, _ANSWER_SECONDS)  # creates the topic
        return super().inspect_topics(topic_names, timeout)


class _AsList(Deserializer):
    """Deserializes a message with several records to one list."""

    def __init__(self, deserialize: Deserializer) -> None:
        self._deserialize = deserialize

    def __call__(self, value: bytes, ctx: SerializationContext) -> list[Any]:
        return [*self._deserialize(value, ctx)]


@contextmanager
def offline_reader(
    new: Callable[..., Application],
    customised: Customised,
    settings: Settings,
    formats: Formats,
    limits: BatchLimits,
    on_sent: Callable[[str, Any, Any], None],
) -> Iterator[tuple[None, Transformer]]:
    """Yield a reader, as ``new_reader`` does. ``new`` creates the application for ``transform()``. State is empty.

    Records that the stream sends are passed to ``on_sent``, with the topic or the sink's class, the message key, and
    the value. The mock broker is for Kafka clients that ``transform()`` creates.
    """
    broker = OfflineBroker()
    topics = TopicManager(broker, settings.consumer_group)
    application = new(broker_address=broker.address, topic_manager=topics, use_changelog_topics=False)
    values = _AsList(formats.value) if formats.value.split_values else formats.value
    topic = application.topic(settings.input_topic, value_deserializer=values, key_deserializer=formats.key)
    dataframe = application.dataframe(topic)
    context: Any = dataframe.processing_context  # some methods have no types
    root = dataframe.stream

    def produce_row(row: Row, topic: Topic, key: Any, **_: object) -> None:
        topic.row_serialize(row, key)  # raises an error if serializing fails
        on_sent(topic.name, key, row.value)

    def register(sink: BaseSink) -> None:
        vars(sink)["add"] = lambda value, key, **_: on_sent(type(sink).__name__, key, value)

    vars(context.producer)["produce_row"] = produce_row
    vars(context.sink_manager)["register"] = register
    records = dataframe.update(lambda _: context.printer.print())  # as quixstreams does
    if values is not formats.value:
        records = records.apply(lambda several: [None] if several is None else several, expand=True)
    built = customised.build(records, application)
    with context.state_manager as state:
        for stream_id in state.stores:
            state.on_partition_assign(stream_id, 0, {})
        context.init_checkpoint()
        # Values stay Python objects, and keys may have any type, because transform() may have changed them.
        form = {"values_are_json": False, "keys_are_text": False}
        yield None, Transformer(topic, built, limits, root, **form, clock=DEFAULT.clock)
