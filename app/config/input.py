"""The environment variables of the topic, the deserializers, and the schema registry."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, PositiveInt

from app.config import parsers as parse
from app.config.fields import Area, Contradictions, env
from app.parts import FORMATS

_OF_KEYS = [name for name, each in FORMATS.items() if each.is_of_keys]
KeyFormat = Literal[*_OF_KEYS]  # type: ignore[valid-type] # mypy does not read the table
ValueFormat = Literal[*FORMATS]  # type: ignore[valid-type]
Pem = Annotated[str | None, BeforeValidator(parse.pem_or_path)]
Until = Annotated[str | datetime | timedelta | None, BeforeValidator(parse.until)]
OffsetReset = Annotated[str | datetime | timedelta, BeforeValidator(parse.offset_reset)]
BadRecords = Literal["dead-letter", "skip", "fail"]
OffAtZero = AfterValidator(lambda number: number if number > 0 else None)

_URL = "SCHEMA_REGISTRY_URL"
_Known = BeforeValidator(parse.deserializer)


class Input(Area):
    input_topic: str = env("input", "sensor-data")
    """Topic to read. To read several topics, separate the names with commas, or set a regular expression that begins
    with `^`, such as `^db[.]public[.].*`. Each topic then has a separate table, see the page Many topics.
    """
    table_limit: PositiveInt = env("TABLE_LIMIT", 200)
    """Maximum number of tables if `input` is a regular expression. The connector does not write the other topics."""
    consumer_group: str = env("CONSUMER_GROUP", "s3_direct_sink_v1.0")
    """Consumer group, which all replicas of one deployment share. Each deployment needs a different consumer group."""
    auto_offset_reset: OffsetReset = env("AUTO_OFFSET_RESET", "latest")
    """Where a consumer group without offsets starts: `earliest`, `latest`, a time such as `2026-11-01T00:00:00Z`, or a
    period before the first start, such as `-7d`.
    """
    until: Until = env("UNTIL")
    """When the run ends, with exit code 0. `now`: after all records that the topic contains at the start. A time, or a
    period such as `-1h` before the start: after all records before that time. Empty: never.
    """
    key_deserializer: Annotated[KeyFormat, _Known] = env("KAFKA_KEY_DESERIALIZER", "str")
    """How to deserialize message keys. The message key becomes the column `__key`."""
    value_deserializer: Annotated[ValueFormat, _Known] = env("KAFKA_VALUE_DESERIALIZER", "json")
    """How to deserialize values. Each value must be an object with fields, at the latest after `app/transform.py`."""
    registry_url: Annotated[str | None, BeforeValidator(parse.registry_url)] = env(_URL)
    """Address of a schema registry with Confluent's API, or `glue://<region>/<registry>` for AWS Glue. Required for
    `avro` and `protobuf`.
    """
    registry_username: str | None = env("SCHEMA_REGISTRY_USERNAME", only_with=_URL)
    """User name or API key for the registry. For AWS Glue: access key."""
    registry_password: str | None = env("SCHEMA_REGISTRY_PASSWORD", secret=True, needed_with="SCHEMA_REGISTRY_USERNAME")
    """Password or API secret for the registry. For AWS Glue: secret access key."""
    registry_token: str | None = env("SCHEMA_REGISTRY_TOKEN", secret=True, only_with=_URL)
    """Bearer token for the registry, instead of a user name."""
    registry_ca: Pem = env("SCHEMA_REGISTRY_SSL_CA_LOCATION", only_with=_URL)
    """CA certificates to trust for the registry, as a file or PEM text. Empty: the system's certificates."""
    registry_certificate: Pem = env("SCHEMA_REGISTRY_SSL_CERTIFICATE", only_with=_URL)
    """Client certificate for the registry, as a file or PEM text."""
    registry_key: Pem = env("SCHEMA_REGISTRY_SSL_KEY", secret=True, needed_with="SCHEMA_REGISTRY_SSL_CERTIFICATE")
    """Private key of the client certificate, as a file or PEM text. The private key must not have a password."""
    follow_offsets: str = env("FOLLOW_OFFSETS", "")
    """Change this value (to today's date, for example) to make the connector accept offsets that you moved with a Kafka
    tool. The connector then reads these partitions from the moved offsets. If `AUTO_OFFSET_RESET` is a time, all
    existing partitions begin at that time instead. Empty: partitions continue after the last row in the table.
    """
    on_bad_record: BadRecords = env("ON_BAD_RECORD", "dead-letter")
    """Action for a record that cannot become a row. `dead-letter`: store the record next to the table, with the reason.
    `skip`: count and drop the record. `fail`: end the connector.
    """
    stream_timeout_ms: Annotated[int | None, OffAtZero] = env("STREAM_TIMEOUT_MS")
    """Milliseconds without a record after which a message key times out. Empty, `0` or less: never. Requires
    `STREAM_TIMEOUT_TOPIC`, or `on_stream_timeout()` in `app/transform.py`.
    """
    stream_timeout_topic: str | None = env("STREAM_TIMEOUT_TOPIC", only_with="STREAM_TIMEOUT_MS")
    """Topic that receives an event for each message key that has timed out. The topic must exist."""
    batch_topic: str | None = env("BATCH_TOPIC")
    """Topic that receives an event for each batch in the lake. The topic must exist, and the user needs Write on it."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to subscribe to: names, or one regular expression that begins with ``^``."""
        names = (self.input_topic,) if self.is_expression else self.input_topic.split(",")
        return tuple(dict.fromkeys(name for each in names if (name := each.strip())))

    @property
    def is_expression(self) -> bool:
        return self.input_topic.startswith("^")

    @property
    def has_several(self) -> bool:
        return len(self.topics) > 1 or self.is_expression

    def reads(self, topic: str | None) -> bool:
        """Return whether the topic is an input topic. A regular expression does not match Kafka's internal topics."""
        if topic and self.is_expression:
            return not topic.startswith("__") and re.match(f"^({self.input_topic[1:]})", topic) is not None
        return topic in self.topics

    @property
    def needs_registry(self) -> bool:
        return any(FORMATS[name].needs_registry for name in (self.key_deserializer, self.value_deserializer))

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        values = [name for name, each in FORMATS.items() if each.needs_registry]
        keys = " or ".join(name for name in values if name in _OF_KEYS)
        if self.needs_registry and self.registry_url is None:
            yield _URL, f"must be set with {' and '.join(values)}, to the registry of the schemas"
        elif not self.needs_registry:
            problem = f"KAFKA_VALUE_DESERIALIZER={' or '.join(values)}, or KAFKA_KEY_DESERIALIZER={keys}"
            yield from self.refuse(f"has no effect without {problem}", _URL)
        if self.registry_username:
            problem = "must not be set together with SCHEMA_REGISTRY_USERNAME: set only one of them"
            yield from self.refuse(problem, "SCHEMA_REGISTRY_TOKEN")
        if (self.registry_url or "").startswith("glue://"):
            others = (f"SCHEMA_REGISTRY_{name}" for name in ("TOKEN", "SSL_CA_LOCATION", "SSL_CERTIFICATE"))
            yield from self.refuse("has no effect with AWS Glue", *others)
        if not self.is_expression and any(name.startswith("^") for name in self.topics):
            yield "input", "must be only one expression, as in ^(orders|payments)$"
        try:
            names = ("STREAM_TIMEOUT_TOPIC", self.stream_timeout_topic), ("BATCH_TOPIC", self.batch_topic)
            read = [variable for variable, topic in names if self.reads(topic or "any")]
        except re.error as error:
            yield "input", f"must be a regular expression if it begins with ^: {error}"
            return
        if self.is_expression and re.search(r"\\[A-Za-z0-9]|\(\?|\[[^\]]*(\\-[^\]]|\\\]|\[[:=.])", self.input_topic):
            yield "input", r"must be an expression that Kafka's client supports: without (?, \d, [\-a], [[:a:]] etc."
        yield from self.refuse("must not be an input topic: the events would be read as records", *read)
