"""Both ways from messages to a staged batch: many at once, and one by one."""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from quixstreams.models import Deserializer, Topic

from app.bad_records.refusals import BadRecords, ReadMessage, Refusal
from app.convert.batch import BatchConverter
from app.convert.chunks import FEW
from app.convert.json_columns import JsonMessages
from app.convert.rows import Rules
from app.convert.ruled_messages import RuledMessages
from app.convert.whole_batches import MessageParser, ReadKey, WholeBatches
from app.delivery.stage import Stager
from app.model import Batch, Message, Row, TopicPartition
from app.parts.avro.avro_messages import AvroMessages
from app.parts.protobuf.protobuf_messages import ProtobufMessages
from app.parts.registry.registered_schemas import JsonSchemaMessages
from app.service.formats import RegisteredDeserializer, new_deserializer, read_message
from app.table.field_rules import FieldRules
from app.table.layout import HIVE_NULL, RESCUED_COLUMN, UTC_ZONE, PartitionSpec
from app.table.schema import TableSchema
from app.table.type_names import parse_column_types
from tests.fakes.kafka_message import KafkaMessage
from tests.fakes.memory_schema import MemorySchema
from tests.support.batches import StagedBatch, part, stage

NO_RULES = FieldRules()


@dataclass(frozen=True)
class Table:
    """The settings that bear on conversion."""

    hive: tuple[str, ...] = ()
    timestamp: str = "ts_ms"
    types: str = ""
    metadata: tuple[str, ...] = ()
    avro: AvroMessages | None = None
    protobuf: ProtobufMessages | None = None
    avro_keys: bool = False
    raw_keys: bool = False
    json_schema: bool = False
    timestamp_as: str | None = None
    rules: FieldRules = NO_RULES
    zone: str = UTC_ZONE


class CountingReader:
    """Counts the messages that are read one by one."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.reads = 0

    def read(self, message: Message) -> Row | Refusal:
        self.reads += 1
        return read_message(self._topic, message)


class StagingStep:
    """A staging step with a schema of its own; ``few`` messages are not worth converting at once.

    ``read`` reads single messages, by default with the deserializers of the table's topic.
    """

    def __init__(self, table: Table, *, at_once: bool, few: int = FEW, read: ReadMessage | None = None) -> None:
        spec = PartitionSpec(
            tuple(name for name in table.hive if not name.startswith("~")),
            table.timestamp,
            HIVE_NULL,
            tuple(name.removeprefix("~") for name in table.hive),
            time_zone=table.zone,
            sources={name: fields[0] for name in table.hive if (fields := table.rules.fields_of(name))},
        )
        types = parse_column_types(table.types) if table.types else {}
        rules = Rules(table.timestamp, frozenset(spec.columns), types, table.timestamp_as)
        self.schema = MemorySchema()
        self.reader = CountingReader(_topic(table))
        of_json = JsonSchemaMessages() if table.json_schema else JsonMessages()
        parser: MessageParser = table.avro or table.protobuf or of_json
        if table.rules:
            parser = RuledMessages(parser, table.rules)
        read_key: ReadKey | None = (lambda key, _: key) if table.raw_keys else None
        if table.avro and table.avro_keys:
            read_key = partial(table.avro.read, is_key=True)
        ask_with = table.avro.ask_with if table.avro else None
        whole_batches = WholeBatches(spec, rules, table.metadata, parser, read_key, ask_with, few)
        converter = BatchConverter(
            spec=spec,
            table_root="data/t",
            schema=self.schema,
            rules=rules,
            metadata=table.metadata,
            bad_records=BadRecords("dead-letter", lambda _: None),
            whole_batches=whole_batches if at_once else None,
            read_message=read or self.reader.read,
            field_rules=table.rules,
        )
        self._stager = Stager(converter, "data/t", spec)
        self._batches = 0

    def stage(self, messages: Sequence[KafkaMessage], path: Path) -> StagedBatch:
        """Stage a batch; messages of a partition are to be in the order of their offsets."""
        of_partitions: dict[int, list[Message]] = {}
        for message in messages:
            of_partitions.setdefault(message.partition(), []).append(message)
        parts = tuple(
            part(TopicPartition("sensors", partition), some[0].offset(), some[-1].offset())
            for partition, some in of_partitions.items()
        )
        return self.stage_batch(Batch(parts, tuple([] for _ in parts), tuple(of_partitions.values())), path)

    def stage_batch(self, batch: Batch, path: Path) -> StagedBatch:
        self._batches += 1
        return stage(self._stager, batch, path, self._batches)


def _topic(table: Table) -> Topic:
    text: Deserializer = new_deserializer("str")
    if table.avro:
        of_avro = RegisteredDeserializer(table.avro.read)
        return Topic("sensors", value_deserializer=of_avro, key_deserializer=of_avro if table.avro_keys else text)
    if table.protobuf:
        of_protobuf = RegisteredDeserializer(table.protobuf.read)
        return Topic("sensors", value_deserializer=of_protobuf, key_deserializer=text)
    of_json = RegisteredDeserializer(JsonSchemaMessages().read) if table.json_schema else new_deserializer("json")
    of_keys = new_deserializer("bytes") if table.raw_keys else text
    return Topic("sensors", value_deserializer=of_json, key_deserializer=of_keys)


def outcome_of(staged: StagedBatch, schema: MemorySchema) -> Mapping[str, Any]:
    """All that a batch has come to, so that equal means the same to the byte: 1 is not 1.0, and 0.0 not -0.0.

    Only where the column of rescued values stands is left open: a column that becomes double has rows rescued before.
    """
    outcome: dict[str, Any] = {
        "rejected": [repr(record) for record in staged.rejected],
        "rescued": staged.rescued,
        "schema": [column for column in schema.current.columns.items() if column[0] != RESCUED_COLUMN],
        "has rescued": RESCUED_COLUMN in schema.current.columns,
    }
    if staged.file is not None:
        table = pq.read_table(staged.file.path)
        outcome["columns"] = [
            (column.name, str(column.type)) for column in table.schema if column.name != RESCUED_COLUMN
        ]
        outcome["groups"] = staged.file.groups
        for name, column in zip(table.column_names, table.columns, strict=True):
            values = column.to_pylist()
            if name == RESCUED_COLUMN:  # an object's fields have no order
                values = [None if text is None else sorted(json.loads(text).items()) for text in values]
            outcome[f"column {name}"] = repr(values)
    return outcome


def assert_both_agree(
    table: Table,
    batches: Iterable[Sequence[KafkaMessage]],
    schema: Mapping[str, pa.DataType] | None = None,
    few: int = FEW,
) -> None:
    """Stage the batches one after another both ways, and compare what each has come to."""
    steps = [StagingStep(table, at_once=at_once, few=few) for at_once in (True, False)]
    if schema is not None:
        for step in steps:
            step.schema.current = TableSchema(schema)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "staged.parquet"
        for number, batch in enumerate(batches):
            one, other = (outcome_of(step.stage(batch, path), step.schema) for step in steps)
            assert one == other, f"batch {number} of {batches!r} with {table}"


def messages(*values: bytes | None, first: int = 0, **fields: Any) -> list[KafkaMessage]:
    return [KafkaMessage(value, at=first + index, **fields) for index, value in enumerate(values)]
