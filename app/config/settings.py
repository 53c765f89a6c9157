"""The settings of the connector: the environment's variables, and options calculated from them.

The user's values override the platform's values. An empty variable counts as unset.
"""

import json
import re
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from app.catalog.base import CatalogTarget
from app.config import parsers as parse
from app.config.catalog import Catalog
from app.config.fields import Area, Contradictions, env
from app.config.input import Input
from app.config.kafka_login import Kafka
from app.config.memory import MemoryPlan
from app.config.store import Store, Url
from app.config.table import Table
from app.container import OWN_ADDRESS, MemoryLimit, memory_limit
from app.formatting import duration
from app.logs import LogFormat
from app.parts import PLATFORM_STORE
from app.spark.options import SparkOptions
from app.storage.targets import AzureTarget, GcsTarget, LocalTarget, S3Target, StorageTarget
from app.table.existing_table import TableLocation
from app.table.layout import TIME_COLUMNS, PartitionSpec

DEFAULT_PREFIX: Final = "data"
PLATFORM_PREFIX: Final = "data-lake/time-series"  # where Quix keeps the tables of a workspace

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

COMMAND = "COMMAND"  # main.py reads it before all other variables
_LIMIT = "Quix__Deployment__Limits__Memory"
NOWHERE = "127.0.0.1:9"  # the broker's address for commands that need no broker


class Writing(Area):
    batch_size: PositiveInt = env("BATCH_SIZE", 1000)
    """Minimum number of rows that ends a batch when the topic has been quiet for one second."""
    commit_interval: Annotated[float, Field(gt=0, allow_inf_nan=False)] = env("COMMIT_INTERVAL", 30.0)
    """Seconds between two commits. Each commit writes all records that were read so far."""
    target_file_mb: NonNegativeInt = env("TARGET_FILE_MB", 16)
    """A file of this size in MB is written without waiting for `COMMIT_INTERVAL`. `0`: after `BATCH_SIZE` rows."""
    max_write_workers: Annotated[int, Field(ge=1, le=256)] = env("MAX_WRITE_WORKERS", 10)
    """Number of files to upload at the same time, 1 to 256."""
    max_buffer_mb: PositiveInt = env("MAX_BUFFER_MB", 64)
    """Maximum size in MB of rows in memory."""
    compact: Annotated[parse.Schedule | None, BeforeValidator(parse.schedule)] = env("COMPACT")
    """When to merge small files with `compact`: at a time of day in UTC, such as `03:15`, or every `6h`, `90m` or `1d`.
    Empty: never.
    """
    keep: Annotated[str | None, BeforeValidator(parse.keep)] = env("KEEP")
    """How long to keep rows, such as `400d`, by the time of their folders. Older rows are erased at the time of
    `COMPACT`, or once a day without it. Empty: for ever.
    """
    keep_confirmed: str | None = env("KEEP_CONFIRMED", only_with="KEEP")
    """Set this to the value of `KEEP` to allow it to erase more than half of a table in one run."""
    spark_master: Annotated[str, BeforeValidator(parse.spark_master)] = env("SPARK_MASTER", "local[*]")
    """Cores that Spark uses: `local[*]` for all, `local[2]` for two. For `compact` and `erase` also a cluster."""
    heap_mb: Annotated[int, BeforeValidator(parse.heap_mb), Field(validate_default=True)] = env(
        "SPARK_DRIVER_MEMORY", "512m"
    )
    """Java heap of Spark, at least `512m`."""


class Process(Area):
    memory_limit_mb: PositiveInt | None = env(_LIMIT)  # by Quix Cloud
    """Memory of one replica in MB, see Memory on the page Operations."""
    deployment_name: str | None = env("Quix__Deployment__Name")
    """Name of the deployment, for the status page."""
    replica_name: str | None = env("Quix__Deployment__ReplicaName")
    """Name of the replica, for the status page."""

    http_port: Annotated[int, Field(ge=0, le=65_535)] = env("HTTP_PORT", 8080)
    """Port of the health checks, the metrics and the status page. `0` switches them off."""
    http_host: str = env("HTTP_HOST", "127.0.0.1")
    """Address to open this port on. The container image sets `0.0.0.0`: all interfaces."""
    http_allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(parse.host_names)] = env("HTTP_ALLOWED_HOSTS", ())
    """Host names for which the page and the metrics answer in addition to localhost, separated by commas. Empty: all
    names, except on the loopback address.
    """
    http_frame_ancestors: Annotated[tuple[str, ...], BeforeValidator(parse.origins)] = env("HTTP_FRAME_ANCESTORS", ())
    """Origins whose pages may show the status page in a frame, separated by commas, such as
    `https://portal.cloud.quix.io`.
    """
    loglevel: LogLevel = env("LOGLEVEL", "INFO")
    """Minimum level of log lines. `DEBUG` adds stack traces, which may quote values of records."""
    log_format: LogFormat = env("LOG_FORMAT", "text")
    """`text`: lines for people. `json`: one JSON object per line, for a log store."""
    lineage_url: Url = env("OPENLINEAGE_URL")
    """Address of an OpenLineage collector that receives events of each run."""
    lineage_endpoint: str = env("OPENLINEAGE_ENDPOINT", "api/v1/lineage")
    """Path of the collector below this address."""
    lineage_key: str | None = env("OPENLINEAGE_API_KEY", secret=True, only_with="OPENLINEAGE_URL")
    """Key for the collector."""
    lineage_namespace: str = env("OPENLINEAGE_NAMESPACE", "default")
    """Namespace of the job in the lineage."""

    command: str | None = env(COMMAND, secret=True)  # conditions may contain personal data
    """Command to run instead, with options, such as `compact --when-cold 24h`, if a deployment has no arguments."""


class Settings(Process, Writing, Catalog, Table, Store, Kafka, Input):
    """All variables, the last area's first, and values calculated from several. ``None`` means unset.

    The only value from elsewhere is the container's memory, if the platform does not set it.
    """

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no message may contain."""
        names = (name for name, field in type(self).model_fields.items() if not field.repr and name != "command")
        return tuple(str(value) for name in names if (value := getattr(self, name)) is not None)

    @property
    def storage(self) -> StorageTarget:
        """The store to write to. The platform's store is never created."""
        if self.platform_connection is not None and self.uses_platform_storage:
            target: StorageTarget = resolve_name(PLATFORM_STORE)(self.platform_connection, self.aws_region)
            return target
        scheme, _, name = (self.storage_url or f"s3://{self.s3_bucket}").partition("://")
        match scheme:
            case "s3":
                return S3Target(
                    name,
                    self.aws_region,
                    endpoint_url=self.aws_endpoint_url,
                    access_key=self.aws_access_key_id,
                    secret_key=self.aws_secret_access_key,
                    session_token=self.aws_session_token,
                    may_create=self.create_bucket,
                    role_arn=self.s3_role_arn,
                    role_external_id=self.s3_role_external_id,
                    role_session=re.sub("[^A-Za-z0-9=.@-]", "-", self.deployment_name or "quix-ts-datalake-sink")[:64],
                )
            case "gs":
                return GcsTarget(name, self.gcs_credentials_json)
            case "az":
                return AzureTarget(
                    name,
                    account=self.azure_storage_account,
                    endpoint_url=self.azure_endpoint_url,
                    connection_string=self.azure_storage_connection_string,
                    key=self.azure_storage_key,
                    sas_token=self.azure_storage_sas_token,
                )
            case _:
                return LocalTarget(Path(name))

    @property
    def root(self) -> str:
        """Prefix of each key, without slashes around it: ``<root>/<table>/…``."""
        if not self.uses_platform_storage:
            return self.s3_prefix or DEFAULT_PREFIX
        prefix = self.s3_prefix or PLATFORM_PREFIX
        return f"{self.workspace_id}/{prefix}" if self.workspace_id else prefix

    @property
    def location(self) -> TableLocation:
        """Location of the table, or of all tables with ``{topic}`` in it. A catalog may have another location."""
        return TableLocation(self.storage.uri, f"{self.root}/{self.table}")

    @property
    def spec(self) -> PartitionSpec:
        """The table's layout. A column with ``~`` has no folders; ``.vidx/`` contains its values of each file."""
        return PartitionSpec(
            tuple(entry for entry in self.plain_partitions if not entry.startswith(parse.VIRTUAL_MARK)),
            self.timestamp_column,
            self.null_partition,
            order=tuple(entry.removeprefix(parse.VIRTUAL_MARK) for entry in self.plain_partitions),
            keeps_columns=self.catalog_kind.is_table,
            sort_column=self.sort_column,
            stats_columns=self.stats_columns,
            time_zone=self.time_zone,
            sources={column: name for name, column in self.rename_columns.items()},
        )

    @property
    def spark(self) -> SparkOptions:
        heap_mb, off_heap_mb = self.memory.heap_mb, self.memory.off_heap_mb
        return SparkOptions(self.spark_master, heap_mb, off_heap_mb, self.parquet_compression, self.row_group_rows)

    @property
    def catalog(self) -> CatalogTarget | None:
        """The catalog to register in, if there is one."""
        target: CatalogTarget | None = resolve_name(self.catalog_kind.target)(self)
        return target

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        if self.until is not None:
            problem = "must not be set with UNTIL: the run would end first. Run {} as a separate job"
            yield from self.refuse(problem.format("compact"), "COMPACT")
            yield from self.refuse(problem.format(f"erase --older-than {self.keep}"), "KEEP")
        if self.keep and not self.spec.keeps_columns and TIME_COLUMNS[0] not in self.partitions:
            yield "KEEP", "needs folders of time: year in HIVE_COLUMNS, and optionally month, day and hour"
        if self.memory_limit_mb is not None and self.memory.shortage:
            yield _LIMIT, self.memory.shortage

    @cached_property
    def memory(self) -> MemoryPlan:
        """The memory plan for the container's limit, which the platform or the control group sets."""
        limit = memory_limit() if self.memory_limit_mb is None else MemoryLimit(self.memory_limit_mb, _LIMIT)
        beside = "COMPACT" if self.compact else "KEEP" if self.keep else ""
        return MemoryPlan(self.max_buffer_mb, self.heap_mb, limit, beside)

    @property
    def warnings(self) -> list[str]:
        """Warnings of a container that is too small for the settings, and of logins without encryption.

        Settings that exceed the platform's limit are refused. A control group's limit only causes a warning, because
        the group may contain other processes.
        """
        limit, shortage = self.memory.limit, self.memory.shortage
        warnings = [f"the limit of {limit.mb:,} MB by {limit.source} {shortage}"] if limit and shortage else []
        if names := ", ".join(_unencrypted(self)):
            hint = "whoever can read the network reads them. Use https, and SASL_SSL for Kafka"
            warnings.append(f"{names}: logins and records go to another host unencrypted, so {hint}")
        fields = type(self).model_fields
        old = [fields[name] for name in sorted(self.model_fields_set) if fields[name].deprecated]
        return warnings + [f"{field.validation_alias} is deprecated: {field.deprecated}" for field in old]

    def offline(self, folder: Path) -> "Settings":
        """Return these settings for a table in this folder, without a broker."""
        changed = dict.fromkeys((*Kafka.model_fields, "s3_bucket", "platform_connection"))
        return self.model_copy(update=changed | {"bootstrap_servers": NOWHERE, "storage_url": f"file://{folder}"})

    def summary(self) -> dict[str, str]:
        """Return the table, the memory and all variables with a value, without secrets."""
        limit = self.memory.limit
        limit_text = f"limit {limit.mb:,} MB by {limit.source}" if limit else "no limit found"
        values = (self.by_variable() | {"SPARK_DRIVER_MEMORY": f"{self.heap_mb}m"}).items()
        return {
            "table": self.location.uri,
            "store": str(self.storage),
            "memory": f"{limit_text}, the settings need {self.memory.total_mb:,} MB",
            **{name: shown(name, value) or "set" for name, value in values if value not in (None, (), {})},
        }


VARIABLES: Final = {str(field.validation_alias): field for field in Settings.model_fields.values()}


def shown(variable: str, value: Any) -> str:
    """Return the value as JSON; empty for secrets, and addresses that may contain user:password@host or ?token=…."""
    if not VARIABLES[variable].repr or any(mark in str(value) for mark in ("@", "?", "-----BEGIN ")):
        return ""
    if isinstance(value, timedelta):
        value = f"{duration(value.total_seconds())} ago"
    return json.dumps(value, default=str, ensure_ascii=False)


def _unencrypted(settings: Settings) -> list[str]:
    """Return the variables with addresses of the user to which logins and records are sent without encryption.

    Addresses of the platform are in its network, and the user cannot choose them.
    """
    store = None if settings.uses_platform_storage else settings.storage
    brokers = settings.bootstrap_servers if settings.security_protocol == "SASL_PLAINTEXT" else None
    addresses = {
        "KAFKA_BOOTSTRAP_SERVERS": brokers and f"http://{brokers}".replace(",", " http://"),
        "KAFKA_OAUTH_TOKEN_URL": settings.oauth_token_url,
        "SCHEMA_REGISTRY_URL": (settings.registry_password or settings.registry_token) and settings.registry_url,
        "AWS_ENDPOINT_URL": store.endpoint_url if isinstance(store, S3Target) else None,
        "AZURE_ENDPOINT_URL": store.endpoint_url if isinstance(store, AzureTarget) else None,
        "CATALOG_URL": (settings.catalog_auth_token or settings.catalog_client_secret) and settings.catalog_url,
        "OPENLINEAGE_URL": settings.lineage_key and settings.lineage_url,
    }
    return [name for name, urls in addresses.items() if any(map(_is_plain, (urls or "").split()))]


def _is_plain(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "http" and OWN_ADDRESS.fullmatch(parts.hostname or "") is None
