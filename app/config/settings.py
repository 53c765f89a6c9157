"""The settings of the connector: the values of environment variables, and options calculated from these values.

The user's values override the platform's values. An empty variable is treated as unset.
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
PLATFORM_PREFIX: Final = "data-lake/time-series"  # the folder of a workspace's tables

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

COMMAND = "COMMAND"  # main.py reads it before all other variables
_LIMIT = "Quix__Deployment__Limits__Memory"
NOWHERE = "127.0.0.1:9"  # the broker's address for commands that need no broker


class Writing(Area):
    batch_size: PositiveInt = env("BATCH_SIZE", 1000)
    """Minimum number of rows that ends a batch when the topic has been quiet for one second."""
    commit_interval: Annotated[float, Field(gt=0, allow_inf_nan=False)] = env("COMMIT_INTERVAL", 30.0)
    """Seconds between two commits. Each commit writes all records read so far."""
    target_file_mb: NonNegativeInt = env("TARGET_FILE_MB", 16)
    """A file of this size in MB is written without waiting for `COMMIT_INTERVAL`. `0`: after `BATCH_SIZE` rows."""
    max_write_workers: Annotated[int, Field(ge=1, le=256)] = env("MAX_WRITE_WORKERS", 10)
    """Maximum number of files to upload at the same time, 1 to 256."""
    max_buffer_mb: PositiveInt = env("MAX_BUFFER_MB", 64)
    """Maximum size in MB of the rows in memory."""
    compact: Annotated[parse.Schedule | None, BeforeValidator(parse.schedule)] = env("COMPACT")
    """When to merge small files with `compact`: at a time of day in UTC, such as `03:15`, or every `6h`, `90m` or `1d`.
    Empty: never.
    """
    compact_newest_by: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("COMPACT_NEWEST_BY", ())
    """Columns, such as `device`. `compact` keeps only the newest row of each key in a folder. Empty: all rows."""
    compact_drop_where: str | None = env("COMPACT_DROP_WHERE", only_with="COMPACT_NEWEST_BY")
    """Condition of Spark SQL, such as `op = 'd'`. `compact` removes a key if its newest row meets this condition."""
    keep: Annotated[str | None, BeforeValidator(parse.keep)] = env("KEEP")
    """Age after which rows are erased, such as `400d`. The time in the folder's name decides. Rows are erased at the
    time of `COMPACT`, or once a day if `COMPACT` is empty. Empty: rows are never erased.
    """
    keep_confirmed: str | None = env("KEEP_CONFIRMED", only_with="KEEP")
    """Set this variable to the value of `KEEP` to allow that one run erases more than half of a table."""
    spark_master: Annotated[str, BeforeValidator(parse.spark_master)] = env("SPARK_MASTER", "local[*]")
    """Cores that Spark uses: `local[*]` for all, `local[2]` for two. `compact` and `erase` can also use a cluster."""
    heap_mb: Annotated[int, BeforeValidator(parse.heap_mb), Field(validate_default=True)] = env(
        "SPARK_DRIVER_MEMORY", "512m"
    )
    """Java heap of Spark, at least `512m`."""


class Process(Area):
    memory_limit_mb: PositiveInt | None = env(_LIMIT)  # by Quix Cloud
    """Memory limit of one replica in MB, see Memory on the page Operations."""
    deployment_name: str | None = env("Quix__Deployment__Name")
    """Name of the deployment, for the status page."""
    replica_name: str | None = env("Quix__Deployment__ReplicaName")
    """Name of the replica, for the status page."""

    http_port: Annotated[int, Field(ge=0, le=65_535)] = env("HTTP_PORT", 8080)
    """Port of the health checks, the metrics and the status page. `0`: no port is opened."""
    http_host: str = env("HTTP_HOST", "127.0.0.1")
    """Network address on which `HTTP_PORT` is open. The container image sets `0.0.0.0`: all interfaces."""
    http_allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(parse.host_names)] = env("HTTP_ALLOWED_HOSTS", ())
    """Host names, separated by commas, under which the status page and the metrics answer, in addition to localhost.
    Empty: all names. For connections to a loopback address: only localhost.
    """
    http_frame_ancestors: Annotated[tuple[str, ...], BeforeValidator(parse.origins)] = env("HTTP_FRAME_ANCESTORS", ())
    """Origins of the websites that may show the status page in a frame, separated by commas, such as
    `https://portal.cloud.quix.io`.
    """
    loglevel: LogLevel = env("LOGLEVEL", "INFO")
    """Minimum level of log lines. `DEBUG` adds stack traces. Stack traces may contain values of records."""
    log_format: LogFormat = env("LOG_FORMAT", "text")
    """`text`: lines for people. `json`: one JSON object per line, for log systems."""
    lineage_url: Url = env("OPENLINEAGE_URL")
    """Address of an OpenLineage collector that receives events of each run."""
    lineage_endpoint: str = env("OPENLINEAGE_ENDPOINT", "api/v1/lineage")
    """Path of the API at `OPENLINEAGE_URL`."""
    lineage_key: str | None = env("OPENLINEAGE_API_KEY", secret=True, only_with="OPENLINEAGE_URL")
    """API key for the collector."""
    lineage_namespace: str = env("OPENLINEAGE_NAMESPACE", "default")
    """Namespace of the job in the lineage."""

    command: str | None = env(COMMAND, secret=True)  # conditions may contain personal data
    """Command to run instead of the connector, such as `compact --when-cold 24h`. Used if there are no arguments."""


class Settings(Process, Writing, Catalog, Table, Store, Kafka, Input):
    """The values of all variables, and values calculated from several variables. ``None`` means unset.

    If the platform does not set the container's memory limit, the limit is read from the control group.
    """

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of secret variables, which no message may contain."""
        names = (name for name, field in type(self).model_fields.items() if not field.repr and name != "command")
        return tuple(str(value) for name in names if (value := getattr(self, name)) is not None)

    @property
    def storage(self) -> StorageTarget:
        """The store to write to. The connector never creates the platform's store."""
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
                    role_session=_session_name(self.deployment_name or "quix-ts-datalake-sink"),
                    sts_endpoint_url=self.aws_endpoint_url_sts,
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
        """The prefix of each object key: ``<root>/<table>/…``. The prefix does not begin or end with a slash."""
        if not self.uses_platform_storage:
            return self.s3_prefix or DEFAULT_PREFIX
        prefix = self.s3_prefix or PLATFORM_PREFIX
        return f"{self.workspace_id}/{prefix}" if self.workspace_id else prefix

    @property
    def location(self) -> TableLocation:
        """The table's location. For several tables, the location contains ``{topic}``. A catalog may differ."""
        return TableLocation(self.storage.uri, f"{self.root}/{self.table}")

    @property
    def spec(self) -> PartitionSpec:
        """The table's layout. A column with ``~`` has no folders. Files in ``.vidx/`` contain the column's values."""
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
        """The catalog that lists the table's files; ``None`` without a catalog."""
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
        order = {*parse.ORDER_COLUMNS} - {*self.metadata_columns, *self.partitions}
        if self.compact_newest_by and order:
            yield "COMPACT_NEWEST_BY", f"needs METADATA_COLUMNS with {', '.join(sorted(order))}, to find the newest row"
        if self.compact_drop_where and self.catalog_kind.is_table:
            yield "COMPACT_DROP_WHERE", "does not support CATALOG_TYPE=iceberg: delete such keys in an engine"
        if self.memory_limit_mb is not None and self.memory.shortage:
            yield _LIMIT, self.memory.shortage

    @cached_property
    def memory(self) -> MemoryPlan:
        """The memory plan for the container's limit. The platform or the control group sets this limit."""
        limit = memory_limit() if self.memory_limit_mb is None else MemoryLimit(self.memory_limit_mb, _LIMIT)
        beside = "COMPACT" if self.compact else "KEEP" if self.keep else ""
        return MemoryPlan(self.max_buffer_mb, self.heap_mb, limit, beside)

    @property
    def warnings(self) -> list[str]:
        """Warnings about a small container, logins without encryption, deletions in folders of time, and old variables.

        If the settings need more than the platform's limit, they are refused. If they need more than a control group's
        limit, this property only contains a warning, because the group may contain other processes.
        """
        limit, shortage = self.memory.limit, self.memory.shortage
        warnings = [f"the limit of {limit.mb:,} MB by {limit.source} {shortage}"] if limit and shortage else []
        if names := ", ".join(_unencrypted(self)):
            hint = "whoever can read the network reads them. Use https, and SASL_SSL for Kafka"
            warnings.append(f"{names}: logins and records go to another host unencrypted, so {hint}")
        if self.compact_drop_where and {*TIME_COLUMNS, self.timestamp_column} & {*self.spec.columns}:
            warnings.append("COMPACT_DROP_WHERE with folders of time: a dropped key may return from an older folder")
        fields = type(self).model_fields
        old = [fields[name] for name in sorted(self.model_fields_set) if fields[name].deprecated]
        return warnings + [f"{field.validation_alias} is deprecated: {field.deprecated}" for field in old]

    def offline(self, folder: Path) -> "Settings":
        """Return a copy of these settings for a table in a local folder, without a broker."""
        changed = dict.fromkeys((*Kafka.model_fields, "s3_bucket", "platform_connection"))
        return self.model_copy(update=changed | {"bootstrap_servers": NOWHERE, "storage_url": f"file://{folder}"})

    def summary(self) -> dict[str, str]:
        """Return the table, the memory plan, and the variables that have a value. Secrets are shown as ``set``."""
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
    """Return the value as JSON. For secrets, and for addresses that may contain a login, return an empty text."""
    if not VARIABLES[variable].repr or any(mark in str(value) for mark in ("@", "?", "-----BEGIN ")):
        return ""
    if isinstance(value, timedelta):
        value = f"{duration(value.total_seconds())} ago"
    return json.dumps(value, default=str, ensure_ascii=False)


def _session_name(name: str) -> str:
    """Return the name in a form that AWS accepts: 2 to 64 characters."""
    return re.sub(r"[^\w+=,.@-]", "-", name, flags=re.ASCII)[:64].ljust(2, "-")


def _unencrypted(settings: Settings) -> list[str]:
    """Return the variables with an address to which logins and records are sent without encryption.

    The platform's addresses are omitted, because they are in the platform's network, and users cannot change them.
    """
    store = None if settings.uses_platform_storage else settings.storage
    brokers = settings.bootstrap_servers if settings.security_protocol == "SASL_PLAINTEXT" else None
    addresses = {
        "KAFKA_BOOTSTRAP_SERVERS": brokers and f"http://{brokers}".replace(",", " http://"),
        "KAFKA_OAUTH_TOKEN_URL": settings.oauth_token_url,
        "SCHEMA_REGISTRY_URL": (settings.registry_password or settings.registry_token) and settings.registry_url,
        "AWS_ENDPOINT_URL": store.endpoint_url if isinstance(store, S3Target) else None,
        "AWS_ENDPOINT_URL_STS": settings.aws_endpoint_url_sts,
        "AZURE_ENDPOINT_URL": store.endpoint_url if isinstance(store, AzureTarget) else None,
        "CATALOG_URL": (settings.catalog_auth_token or settings.catalog_client_secret) and settings.catalog_url,
        "OPENLINEAGE_URL": settings.lineage_key and settings.lineage_url,
    }
    return [name for name, urls in addresses.items() if any(map(_is_plain, (urls or "").split()))]


def _is_plain(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "http" and OWN_ADDRESS.fullmatch(parts.hostname or "") is None
