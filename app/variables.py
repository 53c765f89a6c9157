"""The environment variables: their names, defaults and rules. What follows from them is in ``app.settings``.

A variable that is empty counts as unset.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import pyarrow as pa
from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app import setting_values as parse
from app.connection import parse_connection, parse_storage_url
from app.sizing import plan_memory
from app.timestamps import TIME_COLUMNS
from app.type_names import parse_column_types

Deserializer = Literal["str", "string", "bytes", "double", "int", "integer", "json", "quix"]
OffsetReset = Literal["earliest", "latest"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
BadRecords = Literal["dead-letter", "skip", "fail"]
Guarantee = Literal["exactly-once", "at-least-once"]
StartFrom = Literal["journal", "committed"]
Compression = Literal["snappy", "zstd", "gzip", "none"]

_Value = TypeVar("_Value")


def _env(variable: str, default: Any) -> Any:
    return Field(default, validation_alias=variable)


def _parsed(parser: Callable[[str], Any]) -> BeforeValidator:
    return BeforeValidator(lambda raw: None if raw is None else parser(raw))


def _whole(low: int, high: int | None = None) -> BeforeValidator:
    return _parsed(parse.whole_number(low, high))


def _option(words: Any, fold: Callable[[str], str]) -> BeforeValidator:
    return _parsed(parse.one_of(get_args(words), fold))


class Variables(BaseSettings):
    """What the user and the platform have said. ``None`` stands for unset, or for a default that depends on the rest.

    A validator that looks at several fields belongs to the one it complains about and sees those declared above it.
    A field that is wrong itself is missing there and is not judged twice.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,
        case_sensitive=True,
        arbitrary_types_allowed=True,  # of pyarrow
        validate_default=True,  # the rules about what must be set look at defaults
    )

    # Injected by Quix Cloud
    workspace_id: Annotated[str | None, _parsed(parse.name)] = _env("Quix__Workspace__Id", None)
    platform_broker_address: str | None = _env("Quix__Broker__Address", None)
    sdk_token: SecretStr | None = _env("Quix__Sdk__Token", None)
    portal_api: str | None = _env("Quix__Portal__Api", None)
    platform_catalog_url: Annotated[str | None, _parsed(parse.http_url)] = _env("Quix__Lakehouse__Catalog__Url", None)
    platform_catalog_token: SecretStr | None = _env("Quix__Lakehouse__Catalog__AuthToken", None)

    # Kafka
    input_topic: str = _env("input", "sensor-data")
    bootstrap_servers: Annotated[str | None, _parsed(parse.brokers)] = _env("KAFKA_BOOTSTRAP_SERVERS", None)
    security_protocol: Annotated[SecurityProtocol | None, _option(SecurityProtocol, str.upper)] = _env(
        "KAFKA_SECURITY_PROTOCOL", None
    )
    sasl_mechanism: Annotated[SaslMechanism | None, _option(SaslMechanism, str.upper)] = _env(
        "KAFKA_SASL_MECHANISM", None
    )
    sasl_username: str | None = _env("KAFKA_SASL_USERNAME", None)
    sasl_password: SecretStr | None = _env("KAFKA_SASL_PASSWORD", None)
    ssl_ca_location: Annotated[Path | None, _parsed(parse.existing_file)] = _env("KAFKA_SSL_CA_LOCATION", None)
    consumer_group: str = _env("CONSUMER_GROUP", "s3_direct_sink_v1.0")
    auto_offset_reset: Annotated[OffsetReset, _option(OffsetReset, str.lower)] = _env("AUTO_OFFSET_RESET", "latest")
    key_deserializer: Annotated[Deserializer, _option(Deserializer, str.lower)] = _env("KAFKA_KEY_DESERIALIZER", "str")
    value_deserializer: Annotated[Deserializer, _option(Deserializer, str.lower)] = _env(
        "KAFKA_VALUE_DESERIALIZER", "json"
    )
    delivery_guarantee: Annotated[Guarantee, _option(Guarantee, str.lower)] = _env("DELIVERY_GUARANTEE", "exactly-once")
    start_from: Annotated[StartFrom, _option(StartFrom, str.lower)] = _env("START_FROM", "journal")
    on_bad_record: Annotated[BadRecords, _option(BadRecords, str.lower)] = _env("ON_BAD_RECORD", "dead-letter")

    # Store
    s3_bucket: Annotated[str | None, _parsed(parse.bucket)] = _env("S3_BUCKET", None)
    storage_url: Annotated[str | Path | None, _parsed(parse_storage_url)] = _env("STORAGE_URL", None)
    platform_connection: SecretStr | None = _env("Quix__BlobStorage__Connection__Json", None)
    s3_prefix: Annotated[str | None, _parsed(parse.prefix)] = _env("S3_PREFIX", None)
    aws_access_key_id: SecretStr | None = _env("AWS_ACCESS_KEY_ID", None)
    aws_secret_access_key: SecretStr | None = _env("AWS_SECRET_ACCESS_KEY", None)
    aws_session_token: SecretStr | None = _env("AWS_SESSION_TOKEN", None)
    aws_endpoint_url: Annotated[str | None, _parsed(parse.http_url)] = _env("AWS_ENDPOINT_URL", None)
    aws_region: str = _env("AWS_REGION", "us-east-1")

    # Table
    table_name: Annotated[str | None, _parsed(parse.name)] = _env("TABLE_NAME", None)
    partitions: Annotated[tuple[str, ...], NoDecode, _parsed(parse.partitions)] = _env("HIVE_COLUMNS", "")
    timestamp_column: str = _env("TIMESTAMP_COLUMN", "ts_ms")
    null_partition: Annotated[str, _parsed(parse.folder)] = _env("NULL_PARTITION", "auto")
    parquet_compression: Annotated[Compression, _option(Compression, str.lower)] = _env("PARQUET_COMPRESSION", "snappy")
    row_group_rows: Annotated[int, _whole(1)] = _env("ROW_GROUP_ROWS", 1_000_000)
    column_types: Annotated[Mapping[str, pa.DataType], NoDecode, _parsed(parse_column_types)] = _env("COLUMN_TYPES", "")
    metadata_columns: Annotated[tuple[str, ...], NoDecode, _parsed(parse.metadata_columns)] = _env(
        "METADATA_COLUMNS", ""
    )
    sort_column: str | None = _env("SORT_COLUMN", None)
    stats_columns: Annotated[tuple[str, ...], NoDecode, _parsed(parse.columns)] = _env("STATS_COLUMNS", "")

    # Catalog
    catalog_url: Annotated[str | None, _parsed(parse.http_url)] = _env("CATALOG_URL", None)
    catalog_auth_token: SecretStr | None = _env("CATALOG_AUTH_TOKEN", None)
    auto_discover: Annotated[bool, _parsed(parse.flag)] = _env("AUTO_DISCOVER", True)
    catalog_namespace: Annotated[str, _parsed(parse.name)] = _env("CATALOG_NAMESPACE", "default")

    # Writing
    batch_size: Annotated[int, _whole(1)] = _env("BATCH_SIZE", 1000)
    commit_interval: Annotated[float, _parsed(parse.seconds)] = _env("COMMIT_INTERVAL", 30)
    max_write_workers: Annotated[int, _whole(1, 256)] = _env("MAX_WRITE_WORKERS", 10)
    max_buffer_mb: Annotated[int | None, _whole(1)] = _env("MAX_BUFFER_MB", None)
    spark_master: Annotated[str, _parsed(parse.local_master)] = _env("SPARK_MASTER", "local[*]")
    spark_driver_memory: Annotated[str | None, _parsed(parse.heap)] = _env("SPARK_DRIVER_MEMORY", None)
    memory_limit_mb: Annotated[int | None, _whole(1)] = _env("Quix__Deployment__Limits__Memory", None)

    # Process
    http_port: Annotated[int, _whole(0, 65_535)] = _env("HTTP_PORT", 8080)
    loglevel: Annotated[LogLevel, _option(LogLevel, str.upper)] = _env("LOGLEVEL", "INFO")

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, raw: dict[str, str]) -> dict[str, str]:
        return {variable: text.strip() for variable, text in raw.items() if text.strip()}

    @field_validator("bootstrap_servers")
    @classmethod
    def _broker_is_known(cls, value: str | None, info: ValidationInfo) -> str | None:
        by_token = info.data["sdk_token"] and info.data["portal_api"]
        if not (value or info.data["platform_broker_address"] or by_token):
            raise ValueError(
                "must be set, such as localhost:9092: neither Quix__Broker__Address nor Quix__Sdk__Token together with "
                "Quix__Portal__Api is there to name a broker"
            )
        return value

    @field_validator("security_protocol")
    @classmethod
    def _protocol_has_a_broker(cls, value: str | None, info: ValidationInfo) -> str | None:
        broker_from_token = "bootstrap_servers" in info.data and not (
            info.data["bootstrap_servers"] or info.data["platform_broker_address"]
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
        return _together(value, info, "sasl_mechanism", "KAFKA_SASL_MECHANISM")

    @field_validator("ssl_ca_location")
    @classmethod
    def _ca_fits_protocol(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value and "security_protocol" in info.data and info.data["security_protocol"] not in {"SSL", "SASL_SSL"}:
            raise ValueError("needs KAFKA_SECURITY_PROTOCOL to be SSL or SASL_SSL")
        return value

    @field_validator("storage_url")
    @classmethod
    def _one_store(cls, value: str | Path | None, info: ValidationInfo) -> str | Path | None:
        if value and info.data.get("s3_bucket"):
            raise ValueError("must not be set together with S3_BUCKET: one of the two names the store")
        return value

    @field_validator("platform_connection")
    @classmethod
    def _some_store(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if not _store_is_the_platforms(info):
            return value  # what is not used need not fit
        if value is None:
            raise PydanticCustomError(
                "no_store",
                "must be set to the name of a bucket, or STORAGE_URL to s3://bucket or file:///folder; on Quix Cloud "
                "the deployment can be bound to the blob storage instead",
                {"variable": "S3_BUCKET"},
            )
        parse_connection(value.get_secret_value())
        return value

    @field_validator("aws_access_key_id", "aws_endpoint_url", "aws_session_token")
    @classmethod
    def _access_has_its_store(cls, value: _Value, info: ValidationInfo) -> _Value:
        if value and _store_is_the_platforms(info) and "platform_connection" in info.data:
            raise ValueError(
                "is for a store of your own: set S3_BUCKET as well, or leave this empty to use the platform's storage"
            )
        return value

    @field_validator("aws_secret_access_key")
    @classmethod
    def _secret_fits_key(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return _together(value, info, "aws_access_key_id", "AWS_ACCESS_KEY_ID")

    @field_validator("aws_session_token")
    @classmethod
    def _session_fits_key(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value and "aws_access_key_id" in info.data and not info.data["aws_access_key_id"]:
            raise ValueError("has no effect without AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        return value

    @field_validator("aws_region")
    @classmethod
    def _region_fits_store(cls, value: str, info: ValidationInfo) -> str:
        on_aws = "aws_endpoint_url" in info.data and not info.data["aws_endpoint_url"]
        return parse.aws_region(value) if on_aws else parse.other_region(value)

    @field_validator("table_name")
    @classmethod
    def _table_has_a_name(cls, value: str | None, info: ValidationInfo) -> str | None:
        topic = info.data["input_topic"]
        if value is None and not parse.fits_as_name(topic):
            raise ValueError(f'must be set, because the topic\'s name "{topic}" cannot name a table: {parse.NAME_RULE}')
        return value

    @field_validator("timestamp_column")
    @classmethod
    def _time_is_kept(cls, value: str, info: ValidationInfo) -> str:
        if value in TIME_COLUMNS and value in info.data.get("partitions", ()):
            raise ValueError(
                "must not be a column of HIVE_COLUMNS that is derived from it: its own values would be lost"
            )
        return value

    @field_validator("memory_limit_mb")
    @classmethod
    def _all_fits(cls, value: int | None, info: ValidationInfo) -> int | None:
        if "max_buffer_mb" in info.data and "spark_driver_memory" in info.data:
            heap = info.data["spark_driver_memory"]
            plan_memory(value, info.data["max_buffer_mb"], heap and parse.megabytes(heap))
        return value


def _together(value: _Value, info: ValidationInfo, other: str, variable: str) -> _Value:
    if other not in info.data:
        return value
    if value is None and info.data[other] is not None:
        raise ValueError(f"must be set, because {variable} is")
    if value is not None and info.data[other] is None:
        raise ValueError(f"has no effect without {variable}: set both or none")
    return value


def _store_is_the_platforms(info: ValidationInfo) -> bool:
    return all(store in info.data and info.data[store] is None for store in ("s3_bucket", "storage_url"))
