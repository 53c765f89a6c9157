"""Builds what reads keys and values, by the settings: deserializers, parsers of batches, the schema registry."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quixstreams.models import Deserializer

from app.catalog.rest_client import Credentials
from app.catalog.schema_registry import SchemaRegistry
from app.config.parsers import is_pem
from app.config.settings import Settings
from app.consumer.deserializers import KeyDeserializer, RegisteredDeserializer, loads, new_deserializer
from app.convert.json_parser import JsonMessages
from app.convert.registered_schemas import Find, payload
from app.convert.whole_batches import MessageParser, Patiently, ReadKey
from app.errors import RetryableError
from app.model import Headers, RegisteredSchema, SchemaId
from app.monitoring.waits import Request, Stopped, Waits


@dataclass(frozen=True, slots=True)
class Formats:
    value: Deserializer
    key: Deserializer
    parser: MessageParser  # of many values at once
    read_key: ReadKey | None = None  # for keys that are no text
    ask_with: Callable[[Patiently], None] | None = None  # sets how the schema registry is asked


def new_registry(settings: Settings, scratch: Path) -> SchemaRegistry:
    """The schema registry; certificates that the settings hold as text become files in the scratch folder."""

    def file(name: str, pem: str | None) -> str | None:
        if pem is None or not is_pem(pem):
            return pem
        path = scratch / f"registry-{name}.pem"
        path.touch(mode=0o600)
        path.write_text(pem)
        return str(path)

    credentials = Credentials(
        settings.registry_token,
        settings.registry_username,
        settings.registry_password,
        file("ca", settings.registry_ca),
        file("certificate", settings.registry_certificate),
        file("key", settings.registry_key),
    )
    assert settings.registry_url is not None, "settings with Avro name it"  # noqa: S101
    return SchemaRegistry(settings.registry_url, credentials, settings.input_topic)


def new_formats(settings: Settings, find: Find | None) -> Formats:
    """The parts that read keys and values; ``find`` asks the schema registry, if there is one."""
    values, keys = settings.value_deserializer, settings.key_deserializer
    registered = {"json-schema": json_schema}
    json = JsonMessages(have_schemas=values == "json-schema")
    if find is None:
        value, key = (registered.get(name) or new_deserializer(name) for name in (values, keys))
        return Formats(value, KeyDeserializer(key), json)
    # Each loads a library that is not needed otherwise: Polars takes a fifth of a second and 60 MB.
    asks: list[Callable[[Patiently], None]] = []
    read_key: ReadKey | None = None
    parser: MessageParser = json
    if "avro" in (values, keys):
        from app.convert.avro_messages import AvroMessages  # noqa: PLC0415

        avro = AvroMessages(find)
        registered["avro"] = RegisteredDeserializer(avro.read)
        asks.append(avro.ask_with)
        read_key = avro.read_key if keys == "avro" else None
        parser = avro if values == "avro" else parser
    if values == "protobuf":
        from app.convert.protobuf_messages import ProtobufMessages  # noqa: PLC0415

        parser = protobuf = ProtobufMessages(find)
        registered["protobuf"] = RegisteredDeserializer(protobuf.read)
        asks.append(protobuf.ask_with)
    value, key = (registered.get(name) or new_deserializer(name) for name in (values, keys))

    def ask_with(patiently: Patiently) -> None:
        for each in asks:
            each(patiently)

    return Formats(value, KeyDeserializer(key), parser, read_key, ask_with)


def _read_json(raw: bytes, headers: Headers | None, is_key: bool) -> Any:
    return loads(payload(raw, headers, is_key=is_key).data)


json_schema = RegisteredDeserializer(_read_json)


def waiting(find: Find, waits: Waits, seconds: float, stop: threading.Event) -> Find:
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
