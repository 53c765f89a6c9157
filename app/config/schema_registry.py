"""Variables of the deserializers, and of the schema registry that some of them need."""

from typing import Annotated, Literal

from pydantic import SecretStr

from app.config import parsers as parse
from app.config.fields import Contradictions, env, parsed
from app.config.kafka_login import KafkaLoginVariables

Deserializer = Literal["str", "string", "bytes", "double", "int", "integer", "json", "quix", "avro"]
ValueDeserializer = Literal["str", "string", "bytes", "double", "int", "integer", "json", "quix", "avro", "json-schema"]

_URL = "SCHEMA_REGISTRY_URL"
_Pem = parsed(parse.pem_or_path)
_Known = parsed(parse.deserializer)


class SchemaRegistryVariables(KafkaLoginVariables):
    """How keys and values are deserialized."""

    key_deserializer: Annotated[Deserializer, _Known] = env("KAFKA_KEY_DESERIALIZER", "str")
    value_deserializer: Annotated[ValueDeserializer, _Known] = env("KAFKA_VALUE_DESERIALIZER", "json")
    registry_url: Annotated[str | None, parsed(parse.http_url)] = env(_URL, None)
    registry_username: str | None = env("SCHEMA_REGISTRY_USERNAME", None, only_with=_URL)
    registry_password: SecretStr | None = env("SCHEMA_REGISTRY_PASSWORD", None, only_with="SCHEMA_REGISTRY_USERNAME")
    registry_token: SecretStr | None = env("SCHEMA_REGISTRY_TOKEN", None, only_with=_URL)
    registry_ca: Annotated[str | None, _Pem] = env("SCHEMA_REGISTRY_SSL_CA_LOCATION", None, only_with=_URL)
    registry_certificate: Annotated[str | None, _Pem] = env("SCHEMA_REGISTRY_SSL_CERTIFICATE", None, only_with=_URL)
    registry_key: Annotated[SecretStr | None, _Pem] = env(
        "SCHEMA_REGISTRY_SSL_KEY", None, only_with="SCHEMA_REGISTRY_SSL_CERTIFICATE"
    )

    @property
    def needs_registry(self) -> bool:
        """Whether a key or value is read by a schema of the registry."""
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
