"""A process of the plain lane: its own loop over Kafka's client, with the parts of ``stepped_member``."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from types import SimpleNamespace
from typing import Any

from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.context import message_context
from quixstreams.models import Topic

from app.bad_records.refusals import BadRecords, ReadMessage, Refusal, no_object
from app.consumer.errors import not_processed
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.consumer.plain.transformer import Transformer, stateless_dataframe
from app.consumer.rows import row_of
from app.convert.batch import BatchConverter
from app.convert.rows import Rules
from app.convert.whole_batches import WholeBatches
from app.delivery.batch_limits import BatchLimits
from app.delivery.stage import Stager
from app.model import Message, Row, TopicPartition
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.memory_schema import MemorySchema
from tests.faults.kafka_model import TOPIC, Consumer, Group, to_kafka
from tests.faults.stepped_member import COMMIT_SECONDS, KINDS, LIMITS, METADATA, Process, World
from tests.support.batches import spec

# A control record is one that the client does not give: "filtered" stands for it. No message gives several rows.
PLAIN_KINDS = ("a", "b", "bad", "filtered")


Messages = Callable[[TopicPartition, int, str], list[KafkaMessage]]


def _message(tp: TopicPartition, offset: int, value: Any) -> KafkaMessage:
    return KafkaMessage(json.dumps(value).encode(), b"key", offset, tp.partition, tp.topic)


def _messages(tp: TopicPartition, offset: int, kind: str) -> list[KafkaMessage]:
    return [_message(tp, offset, value) for value in KINDS[kind]]


def _read(message: Message) -> Row | Refusal:
    value = json.loads(message.value() or b"null")
    if isinstance(value, dict):
        return Row(value, "key", message.timestamp()[1], message.offset(), None, message)
    context = SimpleNamespace(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        value=value,
        key="key",
        timestamp=message.timestamp()[1],
        headers=[],
    )
    return not_processed(no_object(value), context, message)  # type: ignore[arg-type]


class Client(Consumer):
    """What the plain lane uses of librdkafka's consumer."""

    def __init__(self, group: Group, messages_of: Messages) -> None:
        super().__init__(group)
        self._messages_of = messages_of
        self.owned: list[TopicPartition] = []

    @property
    def assigned(self) -> list[TopicPartition]:
        return list(self.owned)

    @property
    def is_at_end(self) -> bool:
        return set(self._positions) == set(self.owned) and super().is_at_end

    def forget(self, tps: Any) -> None:
        self.owned = [tp for tp in self.owned if tp not in tps]

    def consume(self, num_messages: int, timeout: float) -> list[KafkaMessage]:
        polled: list[KafkaMessage] = []
        for tp in sorted(self._positions.keys() - self._paused):
            records = self._records(tp)
            while self._at(tp) < len(records) and len(polled) < num_messages:
                polled += self._messages_of(tp, self._at(tp), records[self._at(tp)])
                self._positions[tp] = self._at(tp) + 1
        return polled

    def assign(self, tps: list[KafkaTopicPartition]) -> None:
        self._positions = {TopicPartition(tp.topic, tp.partition): tp.offset for tp in tps}

    def unassign(self) -> None:
        self._positions = {}


class PlainMember(Process):
    messages_of = staticmethod(_messages)
    read: ReadMessage = staticmethod(_read)

    def __init__(self, name: str, world: World) -> None:
        self._client = client = Client(world.group, self.messages_of)
        limits = replace(LIMITS, commit_seconds=COMMIT_SECONDS)
        super().__init__(name, world, client, partial(_stager, self.read), limits)
        played: Any = client
        bad_records = BadRecords("dead-letter", lambda _: None, world.clock)
        intake = Intake(limits.max_record_bytes, bad_records, transformer=self._transformer(limits, world))
        self._loop = PlainLoop(played, intake, self.members, lambda _: None)
        self._loop._has_topics = len({tp.topic for tp in world.group.records}) > 1

    def _transformer(self, limits: BatchLimits, world: World) -> Transformer | None:
        return None

    def _is_journaled(self, tp: TopicPartition) -> bool:
        """A control record that nothing follows cannot be seen."""
        given = [at for at, kind in enumerate(self.group.records[tp]) if self.messages_of(tp, at, kind)]
        return self._end(tp) >= max(given, default=-1)

    def _assigned(self, tps: list[TopicPartition]) -> None:
        self._client.owned = list(tps)
        self._loop._assigned(self._client, to_kafka(tps))

    def _turns(self, count: int) -> None:
        for _ in range(count):
            self._loop._turn()

    def _checkpoint(self) -> None:
        for assignment in self.members.assignments:
            assignment.end_batch("checkpoint")
        self._loop._turn()

    def _revoke(self) -> None:
        tps = self._client.assigned
        self._loop._revoked(self._client, to_kafka(tps))
        self._client.forget(tps)

    def _lose(self) -> None:
        tps = self._client.assigned
        self._loop._lost(self._client, to_kafka(tps))
        self._client.forget(tps)

    def _stop(self) -> None:
        self._loop.stop()
        self._revoke()

    def _fail(self) -> None:
        self._loop._end_assignments()


def _rows_of(record: Any) -> list[Any]:
    """Some with a value that JSON has not."""
    rows = KINDS[record["kind"]]
    is_odd = message_context().offset % 5 == 3
    return [{**row, "when": date(2024, 1, 1)} if is_odd and isinstance(row, dict) else row for row in rows]


class TransformingMember(PlainMember):
    """Its ``transform()`` makes of a kind what belongs to it."""

    tables_at_start = 2

    messages_of = staticmethod(lambda tp, offset, kind: [_message(tp, offset, {"kind": kind})])
    read = staticmethod(row_of)

    def _transformer(self, limits: BatchLimits, world: World) -> Transformer:
        topic = Topic(TOPIC, value_deserializer="json", key_deserializer="str")
        built = stateless_dataframe().apply(_rows_of, expand=True)
        return Transformer(topic, built, limits, values_are_json=True, keys_are_text=True, clock=world.clock)


def _stager(read: ReadMessage, root: str) -> Stager:
    of_table = spec("p")
    rules = Rules(of_table.timestamp_column, frozenset(of_table.columns), {})
    converter = BatchConverter(
        spec=of_table,
        table_root=root,
        schema=MemorySchema(),
        rules=rules,
        metadata=METADATA,
        bad_records=BadRecords("dead-letter", lambda _: None),
        whole_batches=WholeBatches(of_table, rules, METADATA),
        read_message=read,
    )
    return Stager(converter, root, of_table)
