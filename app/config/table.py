"""Variables of the table, its files and its catalog."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import BeforeValidator, PositiveFloat, PositiveInt

from app.config import parsers as parse
from app.config.fields import Contradictions, checked, env
from app.config.store import Name, StoreVariables, Url
from app.model import KEY_COLUMN
from app.table.field_rules import FieldRules
from app.table.layout import RESCUED_COLUMN, TIME_COLUMNS
from app.table.type_names import parse_column_types

_OF_PYICEBERG = "PYICEBERG_CATALOG__DEFAULT__"  # variables of the library, which it reads by itself
CatalogType = Literal["quix", "iceberg"]
Compression = Literal["snappy", "zstd", "gzip", "none"]


class TableVariables(StoreVariables):
    # Injected by Quix Cloud
    platform_catalog_url: Url = env("Quix__Lakehouse__Catalog__Url")
    platform_catalog_token: str | None = env("Quix__Lakehouse__Catalog__AuthToken", secret=True)
    platform_query_url: Url = env("Quix__Lakehouse__Query__Url")
    platform_query_token: str | None = env("Quix__Lakehouse__Query__AuthToken", secret=True)

    table_name: Name = env("TABLE_NAME")
    partitions: Annotated[tuple[str, ...], BeforeValidator(parse.partitions)] = env("HIVE_COLUMNS", ())
    timestamp_column: str = env("TIMESTAMP_COLUMN", "ts_ms")
    timestamp_as: Name = env("TIMESTAMP_AS")
    drop_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("DROP_COLUMNS", ())
    rename_columns: Annotated[Mapping[str, str], BeforeValidator(parse.renames)] = env("RENAME_COLUMNS", {})
    hash_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("HASH_COLUMNS", ())
    hash_salt: str | None = env("HASH_SALT", secret=True, only_with="HASH_COLUMNS")
    null_partition: Annotated[str, BeforeValidator(parse.null_folder)] = env("NULL_PARTITION", "auto")
    parquet_compression: Compression = env("PARQUET_COMPRESSION", "zstd")
    row_group_rows: PositiveInt = env("ROW_GROUP_ROWS", 1_000_000)
    column_types: Annotated[Mapping[str, pa.DataType], BeforeValidator(parse_column_types)] = env("COLUMN_TYPES", {})
    metadata_columns: Annotated[tuple[str, ...], BeforeValidator(parse.metadata_columns)] = env("METADATA_COLUMNS", ())
    sort_column: str | None = env("SORT_COLUMN")
    stats_columns: Annotated[tuple[str, ...], BeforeValidator(parse.columns)] = env("STATS_COLUMNS", ())

    catalog_type: CatalogType = env("CATALOG_TYPE", "quix")
    catalog_url: Url = env("CATALOG_URL")
    catalog_auth_token: str | None = env("CATALOG_AUTH_TOKEN", secret=True)
    catalog_client_id: str | None = env("CATALOG_CLIENT_ID", only_with="CATALOG_TYPE=iceberg")
    catalog_client_secret: str | None = env("CATALOG_CLIENT_SECRET", secret=True, only_with="CATALOG_CLIENT_ID")
    catalog_warehouse: str | None = env("CATALOG_WAREHOUSE", only_with="CATALOG_TYPE=iceberg")
    snapshot_days: PositiveFloat = env("SNAPSHOT_DAYS", 1.0)
    auto_discover: bool = env("AUTO_DISCOVER", True)
    catalog_namespace: Annotated[str, BeforeValidator(parse.name)] = env("CATALOG_NAMESPACE", "default")

    @property
    def table(self) -> str:
        return self.table_name or self.input_topic

    @property
    def is_iceberg(self) -> bool:
        return self.catalog_type == "iceberg"

    @property
    def field_rules(self) -> FieldRules:
        return FieldRules(self.drop_columns, self.rename_columns, self.hash_columns, self.hash_salt or "")

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        yield from self._contradictions_of_fields()
        if self.is_iceberg:
            yield from self._contradictions_of_iceberg()
        for variable, problem in checked("TABLE_NAME", parse.name, self.table):
            yield variable, f'must be set, because the topic\'s name "{self.table}" cannot name a table: it {problem}'
        if self.column_types.get(RESCUED_COLUMN, pa.string()) != pa.string():
            yield "COLUMN_TYPES", f"must leave out {RESCUED_COLUMN}, which is always text"
        taken = (self.timestamp_column, *self.partitions, *self.column_types)
        if self.timestamp_as and self.timestamp_as in {name.removeprefix("~") for name in taken}:
            yield "TIMESTAMP_AS", "must name a column that no other setting names"
        if self.timestamp_column in TIME_COLUMNS and self.timestamp_column in self.partitions:
            yield (
                "TIMESTAMP_COLUMN",
                "must not be a column of HIVE_COLUMNS that is derived from it: its own values would be lost",
            )

    def _contradictions_of_fields(self) -> Contradictions:
        if self.hash_columns and not self.hash_salt:
            yield "HASH_SALT", "must be set with HASH_COLUMNS: without a secret, whoever guesses a value finds its hash"
        derived = {*TIME_COLUMNS} & {*self.partitions}
        own = {KEY_COLUMN, RESCUED_COLUMN, *parse.METADATA_COLUMNS, self.timestamp_as}
        rules, renamed = self.field_rules, self.rename_columns
        for variable, names, taken in (
            ("HASH_COLUMNS", self.hash_columns, own | derived),
            ("RENAME_COLUMNS", renamed.values(), own | derived),
            ("DROP_COLUMNS", self.drop_columns, own),
        ):
            for name in filter(taken.__contains__, names):
                yield variable, f"must not name {name}, which is no field of the record but made by the connector"
        for name in self.hash_columns:
            if name == self.timestamp_column or self.column_types.get(name, pa.string()) != pa.string():
                setting = "TIMESTAMP_COLUMN" if name == self.timestamp_column else "COLUMN_TYPES, with another type"
                yield "HASH_COLUMNS", f"must not name {name}, which {setting} names: a hash is text"
        named = dict.fromkeys((name.removeprefix(parse.VIRTUAL_MARK) for name in self.partitions), "HIVE_COLUMNS")
        named |= dict.fromkeys(self.hash_columns, "HASH_COLUMNS") | dict.fromkeys(self.column_types, "COLUMN_TYPES")
        named |= dict.fromkeys(self.stats_columns, "STATS_COLUMNS") | {self.timestamp_column: "TIMESTAMP_COLUMN"}
        if self.sort_column:
            named[self.sort_column] = "SORT_COLUMN"
        for name, setting in named.items():
            if name not in derived and not rules.fields_of(name):
                variable = "RENAME_COLUMNS" if name in renamed else "DROP_COLUMNS"
                yield variable, f"must not name {name}, which {setting} needs"
        for name in filter(renamed.__contains__, self.drop_columns):
            yield "DROP_COLUMNS", f"must not name {name}, which RENAME_COLUMNS names"

    def _contradictions_of_iceberg(self) -> Contradictions:
        if self.catalog_url is None and not any(name.startswith(_OF_PYICEBERG) for name in os.environ):
            yield "CATALOG_URL", f"must be set with CATALOG_TYPE=iceberg, unless {_OF_PYICEBERG}TYPE names a catalog"
        if self.catalog_client_id and not self.catalog_client_secret:
            yield "CATALOG_CLIENT_SECRET", "must be set with CATALOG_CLIENT_ID"
        if self.catalog_client_id and self.catalog_auth_token:
            yield "CATALOG_AUTH_TOKEN", "must not be set with CATALOG_CLIENT_ID: one of them is the login"
        if not self.auto_discover:
            yield "AUTO_DISCOVER", "must be true with CATALOG_TYPE=iceberg: the catalog is the table"
        if any(name.startswith(parse.VIRTUAL_MARK) or "." in name for name in self.partitions):
            yield "HIVE_COLUMNS", "must have neither ~ nor dots in names with CATALOG_TYPE=iceberg"
        for variable, names in (("TIMESTAMP_COLUMN", (self.timestamp_column,)), ("COLUMN_TYPES", self.column_types)):
            if any("." in name for name in names):
                yield variable, "must have no dots in names with CATALOG_TYPE=iceberg"
