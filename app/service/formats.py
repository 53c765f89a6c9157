"""Builds what reads, converts and stages records, by the settings: deserializers, parsers of batches, the stager."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from quixstreams.models import Deserializer, Topic
from quixstreams.models.serializers import DESERIALIZERS, MessageField, SerializationContext
from quixstreams.models.serializers.json import JSONDeserializer
from quixstreams.models.serializers.quix import QuixDeserializer

from app.bad_records.refusals import (
    OF_THE_KEY,
    BadRecords,
    ReadMessage,
    Refusal,
    no_object,
    not_deserialized,
    unchanged,
)
from app.config.settings import Settings
from app.convert.batch import BatchConverter
from app.convert.json_parser import JsonMessages
from app.convert.rows import Rules
from app.convert.ruled_messages import RuledMessages
from app.convert.whole_batches import MessageParser, Patiently, ReadKey, WholeBatches
from app.delivery.batch_limits import BatchLimits
from app.delivery.stage import Stager
from app.errors import RetryableError
from app.json_texts import loads
from app.model import FindSchema, Headers, Message, RegisteredSchema, Row, SchemaId
from app.parts import FORMATS, UNPACKED_SIZE
from app.reason_texts import reason_of
from app.retries import Request, Stopped, Waits
from app.service.lake import Lake
from app.spark.scratch import is_in_memory
from app.timings import Timings

Read = Callable[[bytes, Headers | None, bool, str], Any]
"""Reads a key or value of a message with these headers; then come whether it is the key, and the message's topic."""


def new_deserializer(name: str) -> Deserializer:
    exact = {"json": JSONDeserializer, "quix": QuixDeserializer}
    made: Deserializer = exact[name](loads=loads) if name in exact else DESERIALIZERS[name]()
    return made


class RegisteredDeserializer(Deserializer):
    """Deserializes with the schema whose id the message has."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        headers: Any = ctx.headers
        return self._read(value, headers, ctx.field == MessageField.KEY, ctx.topic)


class KeyDeserializer(Deserializer):
    """Deserializes keys by another deserializer. Its errors get a note: quixstreams reads key and value in one call."""

    def __init__(self, deserialize: Deserializer) -> None:
        self._deserialize = deserialize

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        try:
            return self._deserialize(value, ctx)
        except Exception as error:
            error.add_note(OF_THE_KEY)
            raise


def read_message(topic: Topic, message: Message) -> Row | Refusal:
    """The message's row, or why it has none: for a batch of the plain lane that cannot be read as a whole.

    Raises:
        RetryableError: a deserializer needs a system that does not answer.
        Stopped: the process stopped while a deserializer waited for one.
    """
    try:
        row: Any = topic.row_deserialize(message)  # type: ignore[arg-type] # it asks for no more than this
    except (RetryableError, Stopped):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a deserializer raises
        return not_deserialized(error, message)
    if not isinstance(row.value, dict):
        refused = no_object(row.value)
        return Refusal(unchanged(message, reason_of(refused)), refused.hint)
    return Row(row.value, row.key, row.timestamp, row.offset, row.headers, message)


@dataclass(frozen=True, slots=True)
class Formats:
    value: Deserializer
    key: Deserializer
    parser: MessageParser | None  # of many values at once
    read_key: ReadKey | None  # for keys that are no text
    ask_with: Callable[[Patiently], None] | None  # sets how the schema registry is asked
    size_of: Callable[[Message], int]  # of a message's value as it is read
    read: ReadMessage | None = None  # a single message


def new_formats(settings: Settings, find: FindSchema | None) -> Formats:
    """The parts that read keys and values; ``find`` asks the schema registry, if there is one.

    Each format loads a library that is not needed otherwise: Polars, for Avro, takes a fifth of a second and 60 MB.
    """
    values, keys = settings.value_deserializer, settings.key_deserializer
    made: dict[str, Any] = {}
    for name in {values, keys}:
        known = FORMATS[name]
        if known.messages:
            new = resolve_name(known.messages)
            made[name] = new(find) if known.needs_registry else new()

    def deserializer(name: str) -> Deserializer:
        return new_deserializer(name) if name in DESERIALIZERS else RegisteredDeserializer(made[name].read)

    def ask_with(patiently: Patiently) -> None:
        for name, messages in made.items():
            if FORMATS[name].needs_registry:
                messages.ask_with(patiently)

    read_key: ReadKey | None = (lambda key, _: key) if keys == "bytes" else None
    if keys in made and FORMATS[keys].keys_at_once:
        read_key = partial(made[keys].read, is_key=True)
    size_of = len if {values, keys} <= DESERIALIZERS.keys() else resolve_name(UNPACKED_SIZE)
    key = KeyDeserializer(deserializer(keys))
    return Formats(deserializer(values), key, made.get(values), read_key, ask_with, size_of)


def waiting(find: FindSchema, waits: Waits, seconds: float, stop: threading.Event) -> FindSchema:
    """Ask the registry for so many seconds until it answers, on the thread that consumes.

    Kafka throws out a member that does not poll for five minutes, so the process ends before.
    """

    def patient(schema: SchemaId) -> RegisteredSchema:
        try:
            return waits.retry(Request("registry"), partial(find, schema), stop=stop, give_up_seconds=seconds)
        except Stopped as stopped:  # the loop takes any other error for one of the record
            cause = "the process stops, and the schema registry does not answer"
            hint = "The next start reads again what was not committed"
            raise RetryableError("reading a record", cause, hint) from stopped

    return patient


def new_stager(settings: Settings, lake: Lake, bad_records: BadRecords, formats: Formats | None = None) -> Stager:
    """Steps 1 and 2; without ``formats`` of rows alone."""
    spec = lake.spec
    columns, types = frozenset(spec.columns), settings.column_types
    limit, kind = settings.column_limit, settings.catalog_kind
    rules = Rules(spec.timestamp_column, columns, types, settings.timestamp_as, limit, not kind.is_table)
    if kind.refusal_of_name:
        rules = replace(rules, refuse=resolve_name(kind.refusal_of_name))
    field_rules = settings.field_rules
    whole_batches = None
    if formats:
        parser, read_key, ask_with = formats.parser, formats.read_key, formats.ask_with
        if field_rules:
            parser = RuledMessages(parser or JsonMessages(), field_rules)
        whole_batches = WholeBatches(spec, rules, settings.metadata_columns, parser, read_key, ask_with)
    converter = BatchConverter(
        spec=spec,
        table_root=lake.location.root,
        schema=lake.schema,
        rules=rules,
        metadata=settings.metadata_columns,
        bad_records=bad_records,
        whole_batches=whole_batches,
        read_message=formats.read if formats else None,
        field_rules=field_rules,
    )
    return Stager(converter, lake.location.root, spec, lake.registrar.computed)


def new_batch_limits(settings: Settings, timings: Timings, scratch: Path, commit_seconds: float = inf) -> BatchLimits:
    """The limits of the settings, of this machine's memory and of the scratch folder's disk."""
    memory = settings.memory
    limits = BatchLimits(
        batch_size=settings.batch_size,
        target_file_bytes=settings.target_file_mb * 2**20,
        gather_seconds=timings.gather_seconds,
        max_record_bytes=memory.max_record_bytes,
        max_buffer_bytes=memory.buffer_mb * 2**20,
        max_sort_bytes=memory.sort_mb * 2**20,
        commit_seconds=commit_seconds,
    )
    return limits.fitted(disk_bytes=shutil.disk_usage(scratch).total, is_disk_memory=is_in_memory(scratch))
