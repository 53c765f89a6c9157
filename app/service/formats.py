"""Builds what reads keys and values, by the settings: deserializers, parsers of batches, the schema registry."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any

from quixstreams.models import Deserializer
from quixstreams.models.serializers import DESERIALIZERS

from app.bad_records.refusals import ReadMessage
from app.config.settings import Settings
from app.consumer.deserializers import KeyDeserializer, RegisteredDeserializer, new_deserializer
from app.convert.whole_batches import MessageParser, Patiently, ReadKey
from app.errors import RetryableError
from app.model import FindSchema, Message, RegisteredSchema, SchemaId
from app.monitoring.waits import Request, Stopped, Waits
from app.parts import FORMATS, UNPACKED_SIZE


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

    read_key = partial(made[keys].read, is_key=True) if keys in made and FORMATS[keys].keys_at_once else None
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
