"""Variables of the topic, of the deserializers of its records, and of the schema registry that some of them need."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from app.config import parsers as parse
from app.config.fields import Contradictions, env
from app.config.kafka_login import KafkaLoginVariables, Pem

Deserializer = Literal["str", "string", "bytes", "double", "int", "integer", "json", "quix", "avro"]
ValueDeserializer = Literal["str", "string", "bytes", "double", "int", "integer", "json", "quix", "avro", "json-schema"]
OffsetReset = Literal["earliest", "latest"]
BadRecords = Literal["dead-letter", "skip", "fail"]
OffAtZero = AfterValidator(lambda number: number if number > 0 else None)

_URL = "SCHEMA_REGISTRY_URL"
_Known = BeforeValidator(parse.deserializer)


class KafkaVariables(KafkaLoginVariables):
    key_deserializer: Annotated[Deserializer, _Known] = env("KAFKA_KEY_DESERIALIZER", "str")
    value_deserializer: Annotated[ValueDeserializer, _Known] = env("KAFKA_VALUE_DESERIALIZER", "json")
    registry_url: Annotated[str | None, BeforeValidator(parse.http_url)] = env(_URL)
    registry_username: str | None = env("SCHEMA_REGISTRY_USERNAME", only_with=_URL)
    registry_password: str | None = env("SCHEMA_REGISTRY_PASSWORD", secret=True, only_with="SCHEMA_REGISTRY_USERNAME")
    registry_token: str | None = env("SCHEMA_REGISTRY_TOKEN", secret=True, only_with=_URL)
    registry_ca: Pem = env("SCHEMA_REGISTRY_SSL_CA_LOCATION", only_with=_URL)
    registry_certificate: Pem = env("SCHEMA_REGISTRY_SSL_CERTIFICATE", only_with=_URL)
    registry_key: Pem = env("SCHEMA_REGISTRY_SSL_KEY", secret=True, only_with="SCHEMA_REGISTRY_SSL_CERTIFICATE")

    input_topic: str = env("input", "sensor-data")
    consumer_group: str = env("CONSUMER_GROUP", "s3_direct_sink_v1.0")
    auto_offset_reset: OffsetReset = env("AUTO_OFFSET_RESET", "latest")
    follow_offsets: str = env("FOLLOW_OFFSETS", "")
    on_bad_record: BadRecords = env("ON_BAD_RECORD", "dead-letter")
    stream_timeout_ms: Annotated[int | None, OffAtZero] = env("STREAM_TIMEOUT_MS")
    stream_timeout_topic: str | None = env("STREAM_TIMEOUT_TOPIC", only_with="STREAM_TIMEOUT_MS")

    @property
    def needs_registry(self) -> bool:
        return "avro" in (self.key_deserializer, self.value_deserializer)

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        if self.needs_registry:
            yield from self.require("must be set with the deserializer avro, to the registry of the schemas", _URL)
        else:
            problem = "has no effect without KAFKA_VALUE_DESERIALIZER=avro or KAFKA_KEY_DESERIALIZER=avro"
            yield from self.refuse(problem, _URL)
        if self.registry_username:
            yield from self.require("must be set with SCHEMA_REGISTRY_USERNAME", "SCHEMA_REGISTRY_PASSWORD")
            problem = "must not be set together with SCHEMA_REGISTRY_USERNAME: one of the two is enough"
            yield from self.refuse(problem, "SCHEMA_REGISTRY_TOKEN")
        if self.registry_certificate:
            yield from self.require("must be set with SCHEMA_REGISTRY_SSL_CERTIFICATE", "SCHEMA_REGISTRY_SSL_KEY")
        if self.stream_timeout_topic == self.input_topic:
            yield "STREAM_TIMEOUT_TOPIC", "must be another topic than input: the events would be read as records"
