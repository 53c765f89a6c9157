"""Variables of the table, its files and its catalog."""

from collections.abc import Mapping
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import PositiveInt, SecretStr
from pydantic_settings import NoDecode

from app.config import parsers as parse
from app.config.fields import Contradictions, checked, env, parsed
from app.config.store import StoreVariables
from app.table.layout import RESCUED_COLUMN, TIME_COLUMNS
from app.table.type_names import parse_column_types

Compression = Literal["snappy", "zstd", "gzip", "none"]


class TableVariables(StoreVariables):
    """The table in the store and in the catalog."""

    # Injected by Quix Cloud
    platform_catalog_url: Annotated[str | None, parsed(parse.http_url)] = env("Quix__Lakehouse__Catalog__Url", None)
    platform_catalog_token: SecretStr | None = env("Quix__Lakehouse__Catalog__AuthToken", None)
    platform_query_url: Annotated[str | None, parsed(parse.http_url)] = env("Quix__Lakehouse__Query__Url", None)
    platform_query_token: SecretStr | None = env("Quix__Lakehouse__Query__AuthToken", None)

    table_name: Annotated[str | None, parsed(parse.name)] = env("TABLE_NAME", None)
    partitions: Annotated[tuple[str, ...], NoDecode, parsed(parse.partitions)] = env("HIVE_COLUMNS", "")
    timestamp_column: str = env("TIMESTAMP_COLUMN", "ts_ms")
    timestamp_as: Annotated[str | None, parsed(parse.name)] = env("TIMESTAMP_AS", None)
    null_partition: Annotated[str, parsed(parse.null_folder)] = env("NULL_PARTITION", "auto")
    parquet_compression: Compression = env("PARQUET_COMPRESSION", "zstd")
    row_group_rows: PositiveInt = env("ROW_GROUP_ROWS", 1_000_000)
    column_types: Annotated[Mapping[str, pa.DataType], NoDecode, parsed(parse_column_types)] = env("COLUMN_TYPES", "")
    metadata_columns: Annotated[tuple[str, ...], NoDecode, parsed(parse.metadata_columns)] = env("METADATA_COLUMNS", "")
    sort_column: str | None = env("SORT_COLUMN", None)
    stats_columns: Annotated[tuple[str, ...], NoDecode, parsed(parse.columns)] = env("STATS_COLUMNS", "")

    catalog_url: Annotated[str | None, parsed(parse.http_url)] = env("CATALOG_URL", None)
    catalog_auth_token: SecretStr | None = env("CATALOG_AUTH_TOKEN", None)
    auto_discover: bool = env("AUTO_DISCOVER", True)
    catalog_namespace: Annotated[str, parsed(parse.name)] = env("CATALOG_NAMESPACE", "default")

    @property
    def table(self) -> str:
        """The table's name: ``TABLE_NAME``, else the topic's."""
        return self.table_name or self.input_topic

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
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
