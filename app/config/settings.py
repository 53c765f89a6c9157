"""The settings that the connector uses: the environment's variables, and the values derived from them.

What the user sets wins over what the platform injects.
"""

import json
import os
import re
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from app.config.fields import IN_QUOTES, Contradictions, is_quoted, is_secret
from app.config.kafka_login import KafkaLoginVariables, region_of_msk
from app.config.memory import MemoryPlan, plan_memory
from app.config.misspelled import misspelled
from app.config.parsers import VIRTUAL_MARK, megabytes
from app.config.platform_connection import parse_connection
from app.config.storage_url import StorageAddress
from app.config.targets import CatalogTarget, IcebergTarget, StorageTarget
from app.config.variables import Variables
from app.container import MemoryLimit, memory_limit
from app.errors import ConfigError
from app.formatting import escape_control
from app.storage.targets import AzureTarget, GcsTarget, LocalTarget, S3Target

DEFAULT_PREFIX: Final = "data"
PLATFORM_PREFIX: Final = "data-lake/time-series"  # where Quix keeps the tables of a workspace

_LONGEST_SHOWN = 100
_NOWHERE = "127.0.0.1:9"  # the broker's address for commands that need none


class SettingsError(ConfigError):
    """Wrong or missing settings, all of them at once: one line for each problem, and for each possible cause."""

    def __init__(self, problems: tuple[str, ...], remarks: tuple[str, ...] = ()) -> None:
        self.problems = tuple(map(escape_control, problems))
        self.remarks = tuple(map(escape_control, remarks))
        super().__init__("reading the settings", "; ".join(problems))

    def __str__(self) -> str:
        count = "1 setting is" if len(self.problems) == 1 else f"{len(self.problems)} settings are"
        return "\n".join([f"{count} wrong:", *(f"  - {line}" for line in self.problems), *self.remarks])


class Settings(Variables):
    """The variables, and the values that follow from several of them.

    Nothing is looked up outside, except the memory of the container where the platform names none.
    """

    @property
    def msk_region(self) -> str:
        """The region to sign the IAM login of Amazon MSK for: that in the brokers' names, else ``AWS_REGION``."""
        return region_of_msk(self.broker_address or "") or self.aws_region

    @property
    def storage(self) -> StorageTarget:
        """The store to write to. The platform's own is never created."""
        if self.platform_connection is not None and self.uses_platform_storage:
            return parse_connection(self.platform_connection.get_secret_value(), default_region=self.aws_region)
        address = self.storage_url or StorageAddress("s3", str(self.s3_bucket))
        match address.scheme:
            case "s3":
                return self._s3(address.name)
            case "gs":
                return GcsTarget(address.name, _revealed(self.gcs_credentials_json))
            case "az":
                return self._azure(address.name)
            case "file":
                return LocalTarget(Path(address.name))

    def _s3(self, bucket: str) -> S3Target:
        return S3Target(
            bucket=bucket,
            region=self.aws_region,
            endpoint_url=self.aws_endpoint_url,
            access_key=_revealed(self.aws_access_key_id),
            secret_key=_revealed(self.aws_secret_access_key),
            session_token=_revealed(self.aws_session_token),
            may_create=self.create_bucket,
        )

    def _azure(self, container: str) -> AzureTarget:
        return AzureTarget(
            container=container,
            account=self.azure_storage_account,
            endpoint_url=self.azure_endpoint_url,
            connection_string=_revealed(self.azure_storage_connection_string),
            key=_revealed(self.azure_storage_key),
            sas_token=_revealed(self.azure_storage_sas_token),
        )

    @property
    def root(self) -> str:
        """Prefix of every key, without slashes around it: ``<root>/<table>/…``."""
        if not self.uses_platform_storage:
            return self.s3_prefix or DEFAULT_PREFIX
        prefix = self.s3_prefix or PLATFORM_PREFIX
        return f"{self.workspace_id}/{prefix}" if self.workspace_id else prefix

    @property
    def hive_columns(self) -> tuple[str, ...]:
        """The partition columns that are folders, outermost first."""
        return tuple(entry for entry in self.partitions if not entry.startswith(VIRTUAL_MARK))

    @property
    def virtual_columns(self) -> tuple[str, ...]:
        """The partition columns without folders: they stay in the files, and ``.vidx/`` has the values of each file."""
        return tuple(name for name in self.partition_order if name not in self.hive_columns)

    @property
    def partition_order(self) -> tuple[str, ...]:
        """All partition columns, outermost first."""
        return tuple(entry.removeprefix(VIRTUAL_MARK) for entry in self.partitions)

    @property
    def catalog(self) -> CatalogTarget | None:
        """The catalog of Quix to register in, if there is one.

        The platform's token is sent only to the platform's host.
        """
        if self.is_iceberg:
            return None
        url = self.catalog_url or self.platform_catalog_url
        if url is None:
            return None
        token = self.catalog_auth_token
        if token is None and self.platform_catalog_url and _origin(url) == _origin(self.platform_catalog_url):
            token = self.platform_catalog_token
        return CatalogTarget(url, _revealed(token))

    @property
    def iceberg(self) -> IcebergTarget | None:
        if not self.is_iceberg:
            return None
        secret = _revealed(self.catalog_client_secret)
        properties = {
            "uri": self.catalog_url,
            "token": _revealed(self.catalog_auth_token),
            "credential": f"{self.catalog_client_id}:{secret}" if secret else None,
            "warehouse": self.catalog_warehouse,
        }
        known = {name: value for name, value in properties.items() if value is not None}
        return IcebergTarget(self.catalog_url or "by PYICEBERG_CATALOG__DEFAULT", known, self.snapshot_days)

    @property
    def catalog_url_shown(self) -> str | None:
        """Where the catalog is, if there is one of either type."""
        target = self.iceberg or self.catalog
        return target.url if target else None

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        if self.memory_limit_mb is not None and (shortage := self.memory.shortage(self.memory_limit_mb)):
            yield "Quix__Deployment__Limits__Memory", shortage

    @cached_property
    def container_memory(self) -> MemoryLimit | None:
        """The container's memory limit by the platform, otherwise by its control group."""
        if self.memory_limit_mb is not None:
            return MemoryLimit(self.memory_limit_mb, "Quix__Deployment__Limits__Memory")
        return memory_limit()

    @property
    def memory(self) -> MemoryPlan:
        """MB for the rows in Python and for the Java heap, fitted to the container where the user left it open."""
        heap_mb = megabytes(self.spark_driver_memory) if self.spark_driver_memory else None
        limit = self.container_memory
        return plan_memory(limit.mb if limit else None, self.max_buffer_mb, heap_mb)

    @property
    def memory_warning(self) -> str | None:
        """Says why the container is too small for the settings, if it is.

        Settings that exceed the platform's limit are refused. A control group may be shared with others, so its limit
        only gives this warning.
        """
        limit = self.container_memory
        shortage = self.memory.shortage(limit.mb) if limit else None
        return f"the limit of {limit.mb:,} MB by {limit.source} {shortage}" if limit and shortage else None

    def offline(self, folder: Path) -> "Settings":
        """Returns these settings for a table in this folder, without a broker."""
        login = set(KafkaLoginVariables.model_fields) - {"bootstrap_servers", "platform_broker_address"}
        changed = dict.fromkeys((*login, "s3_bucket", "platform_connection"))
        address = StorageAddress("file", str(folder))
        return self.model_copy(update=changed | {"bootstrap_servers": _NOWHERE, "storage_url": address})

    def summary(self) -> dict[str, str]:
        """Returns the table, the memory and every variable that has a value, without secrets."""
        limit = self.container_memory
        found = f"limit {limit.mb:,} MB by {limit.source}" if limit else "no limit found"
        fitted = {"MAX_BUFFER_MB": self.memory.buffer_mb, "SPARK_DRIVER_MEMORY": f"{self.memory.heap_mb}m"}
        values = (self.by_variable() | fitted).items()
        return {
            "table": f"{self.storage.uri}/{self.root}/{self.table}",
            "store": str(self.storage),
            "memory": f"{found}, the settings need {self.memory.total_mb:,} MB",
            **{name: _shown(value) or "set" for name, value in values if value not in (None, (), {})},
        }


def load_settings(*, needs_broker: bool = True, needs_store: bool = True) -> Settings:
    """Reads the settings from the environment; a broker that is set is checked even if none is needed.

    Raises:
        SettingsError: one or more of them are wrong; it names them all.
    """
    problems: dict[str, str] = {}
    try:
        settings = Settings()
    except ValidationError as error:
        for details in error.errors(include_input=False):
            problem = details["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            problems[str(details["loc"][0])] = problem
        unset: dict[str, Any] = dict.fromkeys(problems, "")
        settings = Settings(**unset)
    stand_ins = {}
    if not needs_broker and not settings.names_broker:
        stand_ins["bootstrap_servers"] = _NOWHERE
    if not needs_store and settings.uses_platform_storage and settings.platform_connection is None:
        stand_ins["s3_bucket"] = "offline"
    settings = settings.model_copy(update=stand_ins)
    for variable, problem in chain(settings.contradictions(), settings.without_effect()):
        if problems.keys().isdisjoint((variable, *re.findall(r"\w+", problem))):
            problems[variable] = problem
    if not problems:
        return settings
    # Outside the handler: the cause holds the values, secrets included.
    in_order = (variable for variable in settings.by_variable() if variable in problems)
    raise SettingsError(tuple(f"{name}{_as_set(name)}: {problems[name]}" for name in in_order), remarks())


def remarks() -> tuple[str, ...]:
    """Returns a line for each variable of the environment that is probably a mistake, without its value."""
    near = misspelled(os.environ, _fields_by_variable())
    lines = [f"{name} is set and not known: did you mean {known}?" for name, known in near.items()]
    quoted = [name for name in sorted(_secret_variables()) if is_quoted(os.environ.get(name, "").strip())]
    return (*lines, *(f"{variable}: {IN_QUOTES}, unless they belong to it" for variable in quoted))


def _as_set(variable: str) -> str:
    """Returns ``="value"`` as the user set it, where that can be shown."""
    value = os.environ.get(variable, "").strip()
    if not value or variable in _secret_variables():
        return ""
    shown = _shown(value)
    if len(shown) > _LONGEST_SHOWN:
        shown = f'{shown[:_LONGEST_SHOWN]}…"'
    return shown and f"={shown}"


def _shown(value: Any) -> str:
    """Returns the value as JSON; empty for a secret and for an address that may hold user:password@host or ?token=…."""
    if isinstance(value, SecretStr) or any(mark in str(value) for mark in ("@", "?", "-----BEGIN ")):
        return ""
    return json.dumps(value, default=str, ensure_ascii=False)


def _fields_by_variable() -> dict[str, FieldInfo]:
    return {str(field.validation_alias): field for field in Settings.model_fields.values()}


def _secret_variables() -> set[str]:
    return {name for name, field in _fields_by_variable().items() if is_secret(field)}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
