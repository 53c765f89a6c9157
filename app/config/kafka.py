"""Variables of the broker, the topic and the consumer."""

from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import SecretStr, ValidationInfo, field_validator

from app.config import parsers as parse
from app.config.fields import Area, env, option, parsed, together

Deserializer = Literal["str", "string", "bytes", "double", "int", "integer", "json", "quix"]
OffsetReset = Literal["earliest", "latest"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
BadRecords = Literal["dead-letter", "skip", "fail"]
Guarantee = Literal["exactly-once", "at-least-once"]
StartFrom = Literal["auto", "journal", "committed"]

_Value = TypeVar("_Value")


class KafkaVariables(Area):
    """The broker, the topic, the consumer, and what to do with its records."""

    # Injected by Quix Cloud
    platform_broker_address: str | None = env("Quix__Broker__Address", None)
    sdk_token: SecretStr | None = env("Quix__Sdk__Token", None)
    portal_api: str | None = env("Quix__Portal__Api", None)

    input_topic: str = env("input", "sensor-data")
    bootstrap_servers: Annotated[str | None, parsed(parse.brokers)] = env("KAFKA_BOOTSTRAP_SERVERS", None)
    security_protocol: Annotated[SecurityProtocol | None, option(SecurityProtocol, str.upper)] = env(
        "KAFKA_SECURITY_PROTOCOL", None
    )
    sasl_mechanism: Annotated[SaslMechanism | None, option(SaslMechanism, str.upper)] = env(
        "KAFKA_SASL_MECHANISM", None
    )
    sasl_username: str | None = env("KAFKA_SASL_USERNAME", None)
    sasl_password: SecretStr | None = env("KAFKA_SASL_PASSWORD", None)
    ssl_ca_location: Annotated[Path | None, parsed(parse.existing_file)] = env("KAFKA_SSL_CA_LOCATION", None)
    consumer_group: str = env("CONSUMER_GROUP", "s3_direct_sink_v1.0")
    auto_offset_reset: Annotated[OffsetReset, option(OffsetReset, str.lower)] = env("AUTO_OFFSET_RESET", "latest")
    key_deserializer: Annotated[Deserializer, option(Deserializer, str.lower)] = env("KAFKA_KEY_DESERIALIZER", "str")
    value_deserializer: Annotated[Deserializer, option(Deserializer, str.lower)] = env(
        "KAFKA_VALUE_DESERIALIZER", "json"
    )
    delivery_guarantee: Annotated[Guarantee, option(Guarantee, str.lower)] = env("DELIVERY_GUARANTEE", "exactly-once")
    start_from: Annotated[StartFrom, option(StartFrom, str.lower)] = env("START_FROM", "auto")
    on_bad_record: Annotated[BadRecords, option(BadRecords, str.lower)] = env("ON_BAD_RECORD", "dead-letter")
    stream_timeout_ms: Annotated[int | None, parsed(parse.milliseconds_or_off)] = env("STREAM_TIMEOUT_MS", None)
    stream_timeout_topic: str | None = env("STREAM_TIMEOUT_TOPIC", None)

    @field_validator("bootstrap_servers")
    @classmethod
    def _broker_is_known(cls, value: str | None, info: ValidationInfo) -> str | None:
        by_token = info.data.get("sdk_token") and info.data.get("portal_api")
        if not (value or info.data.get("platform_broker_address") or by_token):
            raise ValueError(
                "must be set, such as localhost:9092: neither Quix__Broker__Address nor Quix__Sdk__Token together with "
                "Quix__Portal__Api is there to name a broker"
            )
        return value

    @field_validator("security_protocol")
    @classmethod
    def _protocol_has_a_broker(cls, value: str | None, info: ValidationInfo) -> str | None:
        broker_from_token = "bootstrap_servers" in info.data and not (
            info.data["bootstrap_servers"] or info.data.get("platform_broker_address")
        )
        if value and broker_from_token:
            raise ValueError("has no effect on the broker of Quix__Sdk__Token: set KAFKA_BOOTSTRAP_SERVERS as well")
        return value

    @field_validator("sasl_mechanism")
    @classmethod
    def _mechanism_fits_protocol(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "security_protocol" not in info.data:
            return value
        sasl = (info.data["security_protocol"] or "").startswith("SASL_")
        if value and not sasl:
            raise ValueError("needs KAFKA_SECURITY_PROTOCOL to be SASL_SSL or SASL_PLAINTEXT")
        if sasl and not value:
            mechanisms = ", ".join(get_args(SaslMechanism))
            raise ValueError(f"must be set with this KAFKA_SECURITY_PROTOCOL, to one of {mechanisms}")
        return value

    @field_validator("sasl_username", "sasl_password")
    @classmethod
    def _login_fits_mechanism(cls, value: _Value, info: ValidationInfo) -> _Value:
        return together(value, info, "sasl_mechanism", "KAFKA_SASL_MECHANISM")

    @field_validator("ssl_ca_location")
    @classmethod
    def _ca_fits_protocol(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value and "security_protocol" in info.data and info.data["security_protocol"] not in {"SSL", "SASL_SSL"}:
            raise ValueError("needs KAFKA_SECURITY_PROTOCOL to be SSL or SASL_SSL")
        return value

    @field_validator("stream_timeout_topic")
    @classmethod
    def _silence_has_a_length(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and "stream_timeout_ms" in info.data and not info.data["stream_timeout_ms"]:
            raise ValueError("has no effect without STREAM_TIMEOUT_MS")
        if value and value == info.data.get("input_topic"):
            raise ValueError("must be another topic than input: the events would be read as records")
        return value
