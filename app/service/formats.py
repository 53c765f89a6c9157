"""Builds what reads keys and values, by the settings: deserializers, parsers of batches, the schema registry."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from quixstreams.models import Deserializer
from quixstreams.models.serializers import DESERIALIZERS

from app.catalog.rest_client import Credentials, RestClient
from app.catalog.schema_registry import SERVICE, SchemaRegistry
from app.config.parsers import is_pem
from app.config.settings import Settings
from app.consumer.deserializers import KeyDeserializer, RegisteredDeserializer, new_deserializer
from app.convert.registered_schemas import Find, unpacked_size
from app.convert.whole_batches import MessageParser, Patiently, ReadKey
from app.errors import RetryableError
from app.model import Message, RegisteredSchema, SchemaId
from app.monitoring.waits import Request, Stopped, Waits
from app.parts import FORMATS


@dataclass(frozen=True, slots=True)
class Formats:
    value: Deserializer
    key: Deserializer
    parser: MessageParser | None  # of many values at once
    read_key: ReadKey | None  # for keys that are no text
    ask_with: Callable[[Patiently], None] | None  # sets how the schema registry is asked
    size_of: Callable[[Message], int]  # of a message's value as it is read


def new_registry(settings: Settings, scratch: Path) -> SchemaRegistry:
    """The schema registry; certificates that the settings hold as text become files in the scratch folder."""

    def file(name: str, pem: str | None) -> str | None:
        if pem is None or not is_pem(pem):
            return pem
        path = scratch / f"registry-{name}.pem"
        path.touch(mode=0o600)
        path.write_text(pem)
        return str(path)

    url = settings.registry_url
    assert url is not None, "settings with Avro name it"  # noqa: S101
    if url.startswith("glue://"):
        from app.catalog.glue_client import GlueClient  # noqa: PLC0415 - with boto3, for this registry alone

        own = settings.registry_username, settings.registry_password, None
        of_store = settings.aws_access_key_id, settings.aws_secret_access_key, settings.aws_session_token
        client = GlueClient(url, own) if own[0] else GlueClient(url, of_store, settings.aws_endpoint_url)
        return SchemaRegistry(url, client, settings.input_topic)
    credentials = Credentials(
        settings.registry_token,
        settings.registry_username,
        settings.registry_password,
        file("ca", settings.registry_ca),
        file("certificate", settings.registry_certificate),
        file("key", settings.registry_key),
    )
    return SchemaRegistry(url, RestClient(SERVICE, url, credentials), f"{settings.input_topic}-value")


def new_formats(settings: Settings, find: Find | None) -> Formats:
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
    size_of = len if {values, keys} <= DESERIALIZERS.keys() else unpacked_size
    key = KeyDeserializer(deserializer(keys))
    return Formats(deserializer(values), key, made.get(values), read_key, ask_with, size_of)


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
