"""Creates the parts that read, convert and stage records: deserializers, parsers of batches, and the stager."""

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
from app.convert.json_columns import JsonMessages
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
"""Reads a key or value of a message. Arguments: bytes, headers, whether the bytes are the key, and topic."""


def new_deserializer(name: str) -> Deserializer:
    exact = {"json": JSONDeserializer, "quix": QuixDeserializer}
    deserializer: Deserializer = exact[name](loads=loads) if name in exact else DESERIALIZERS[name]()
    return deserializer


class RegisteredDeserializer(Deserializer):
    """Deserializes with a registered schema. The message contains the schema's id."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        headers: Any = ctx.headers
        return self._read(value, headers, ctx.field == MessageField.KEY, ctx.topic)


class KeyDeserializer(Deserializer):
    """Deserializes message keys. Adds a note to errors, because quixstreams reads key and value in one call."""

    def __init__(self, deserialize: Deserializer) -> None:
        self._deserialize = deserialize

    def __call__(self, value: bytes, ctx: SerializationContext) -> Any:
        try:
            return self._deserialize(value, ctx)
        except Exception as error:
            error.add_note(OF_THE_KEY)
            raise


def read_message(topic: Topic, message: Message) -> Row | Refusal:
    """Return the message's row or refusal, for batches of the plain lane that cannot be parsed together.

    Raises:
        RetryableError: A deserializer needs a system that does not answer.
        Stopped: The process stopped while a deserializer waited for this system.
    """
    try:
        row: Any = topic.row_deserialize(message)  # type: ignore[arg-type] # it uses only methods of ``Message``
    except (RetryableError, Stopped):
        raise
    except Exception as error:  # noqa: BLE001 - a deserializer may raise any exception
        return not_deserialized(error, message)
    if not isinstance(row.value, dict):
        refused = no_object(row.value)
        return Refusal(unchanged(message, reason_of(refused)), refused.hint)
    return Row(row.value, row.key, row.timestamp, row.offset, row.headers, message)


@dataclass(frozen=True, slots=True)
class Formats:
    value: Deserializer
    key: Deserializer
    parser: MessageParser | None  # parses many values at a time
    read_key: ReadKey | None  # reads keys that are not text
    ask_with: Callable[[Patiently], None] | None  # sets the function that queries the schema registry
    size_of: Callable[[Message], int]  # size of a message's value when it is read
    read: ReadMessage | None = None  # reads a single message


def new_formats(settings: Settings, find: FindSchema | None) -> Formats:
    """Create the parts that read keys and values. ``find`` queries the schema registry; ``None`` without a registry.

    A format's library is loaded only if the format is used. Polars, for Avro, needs a fifth of a second and 60 MB.
    """
    values, keys = settings.value_deserializer, settings.key_deserializer
    messages: dict[str, Any] = {}
    for name in {values, keys}:
        record_format = FORMATS[name]
        if record_format.messages:
            new = resolve_name(record_format.messages)
            messages[name] = new(find) if record_format.needs_registry else new()

    def deserializer(name: str) -> Deserializer:
        return new_deserializer(name) if name in DESERIALIZERS else RegisteredDeserializer(messages[name].read)

    def ask_with(patiently: Patiently) -> None:
        for name, reader in messages.items():
            if FORMATS[name].needs_registry:
                reader.ask_with(patiently)

    read_key: ReadKey | None = (lambda key, _: key) if keys == "bytes" else None
    if keys in messages and FORMATS[keys].keys_at_once:
        read_key = partial(messages[keys].read, is_key=True)
    size_of = len if {values, keys} <= DESERIALIZERS.keys() else resolve_name(UNPACKED_SIZE)
    key = KeyDeserializer(deserializer(keys))
    return Formats(deserializer(values), key, messages.get(values), read_key, ask_with, size_of)


def waiting(find: FindSchema, waits: Waits, seconds: float, stop: threading.Event) -> FindSchema:
    """Return a function that retries queries to the registry for ``seconds``, on the consumer's thread.

    Kafka removes a member that does not poll for five minutes. Therefore the process ends earlier.
    """

    def find_patiently(schema: SchemaId) -> RegisteredSchema:
        try:
            return waits.retry(Request("registry"), partial(find, schema), stop=stop, give_up_seconds=seconds)
        except Stopped as stopped:  # the loop would treat any other error as an error of the record
            cause = "the process stops, and the schema registry does not answer"
            hint = "The next start reads the uncommitted records again"
            raise RetryableError("reading a record", cause, hint) from stopped

    return find_patiently


def new_stager(settings: Settings, lake: Lake, bad_records: BadRecords, formats: Formats | None = None) -> Stager:
    """Create the part for steps 1 and 2. Without ``formats``, this part accepts only rows."""
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
    """Return the limits for the settings, this machine's memory and the scratch folder's disk."""
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
