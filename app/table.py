"""What must hold between the settings and a table that may exist already, in the store and in the catalog."""

import logging
from collections.abc import Sequence
from itertools import islice

from app.catalog.base import Catalog, CatalogTable
from app.errors import ConfigError
from app.partitioning import HIVE_NULL, QUIX_NULL, PartitionSpec, check_spec, is_data_file, null_value_of, spec_of_key
from app.storage.base import ObjectStore

logger = logging.getLogger(__name__)

_FILES_LOOKED_AT = 1_000


def existing_layout(store: ObjectStore, table_root: str) -> tuple[set[tuple[str, ...]], set[str]]:
    """Partition specs and values of the first data files found in the store; both empty for a new table."""
    keys = (item.key for item in store.list(table_root + "/"))
    data_keys = islice((key for key in keys if is_data_file(key, table_root)), _FILES_LOOKED_AT)
    layouts = [spec_of_key(key, table_root) for key in data_keys]
    return {columns for columns, _ in layouts}, {value for _, values in layouts for value in values}


def open_table(
    store: ObjectStore,
    catalog: Catalog | None,
    *,
    table_root: str,
    hive_columns: tuple[str, ...],
    timestamp_column: str,
    null_partition: str,
) -> PartitionSpec:
    """Compare the settings with the table in the store and in the catalog, and settle the null folder's name.

    Args:
        store: connected.
        catalog: connected; ``None`` without one.
        table_root: key of the table's folder.
        hive_columns: configured partition columns.
        timestamp_column: configured source of time columns.
        null_partition: ``auto``, or the folder value of null.

    Raises:
        ConfigError: the table has other partition columns, or is registered at another place.
        ConnectorError: the store or the catalog did not answer as it should.
    """
    location = f"{store.uri}/{table_root}"
    specs, values = existing_layout(store, table_root)
    warning = check_spec(hive_columns, specs, f"the table at {location}")
    if warning:
        logger.warning("%s", warning)
    known = catalog.table() if catalog else None
    if known:
        check_catalog_table(known, location, hive_columns)
    if null_partition == "auto":
        null_partition = null_value_of(values) or (QUIX_NULL if catalog else HIVE_NULL)
    return PartitionSpec(hive_columns, timestamp_column, null_partition)


def check_catalog_table(table: CatalogTable, location: str, hive_columns: Sequence[str]) -> None:
    """Refuse a table that the catalog holds with other partition columns or at another place.

    Raises:
        ConfigError: with both sides in the message.
    """
    if table.partition_spec:  # an empty one is filled by the catalog from the first files
        warning = check_spec(hive_columns, [table.partition_spec], "the table in the catalog")
        if warning:
            logger.warning("%s", warning)
    if table.location and table.location.rstrip("/") != location:
        raise ConfigError(
            "checking the table's location",
            f"the catalog has it at {table.location}, the settings at {location}",
            "Point the storage, S3_PREFIX and TABLE_NAME at the registered place, or choose another TABLE_NAME",
        )
