"""What must hold between the settings and a table that may exist already, in the store and in the catalog."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from app.catalog.base import CatalogTable
from app.partitioning import (
    HIVE_NULL,
    QUIX_NULL,
    PartitionSpec,
    check_spec,
    folder,
    is_data_file,
    null_value_of,
    spec_of_key,
)
from app.storage.base import ObjectStore

logger = logging.getLogger(__name__)

_FILES_LOOKED_AT = 10_000  # ten requests


def existing_layout(
    store: ObjectStore, table_root: str, hive_columns: Sequence[str]
) -> tuple[set[tuple[str, ...]], set[str]]:
    """Partition specs and values of the first data files found in the store; both empty for a new table.

    The null folder comes late in the order of keys, after all numbers: at the first level it is looked for by itself.
    """
    folders = [folder({hive_columns[0]: name}) for name in (QUIX_NULL, HIVE_NULL)] if hive_columns else []
    looked_at = [_data_keys(store, table_root, f"{name}/", 1) for name in folders]
    looked_at.append(_data_keys(store, table_root, "", _FILES_LOOKED_AT))
    layouts = [spec_of_key(key, table_root) for key in chain.from_iterable(looked_at)]
    return {columns for columns, _ in layouts}, {value for _, values in layouts for value in values}


def _data_keys(store: ObjectStore, table_root: str, below: str, most: int) -> Iterator[str]:
    keys = (item.key for item in store.list(f"{table_root}/{below}"))
    return islice((key for key in keys if is_data_file(key, table_root)), most)


def open_table(
    store: ObjectStore,
    known: CatalogTable | None,
    *,
    table_root: str,
    hive_columns: tuple[str, ...],
    timestamp_column: str,
    null_partition: str,
    partition_order: tuple[str, ...],
    default_null: str,
) -> PartitionSpec:
    """Compare the settings with the table in the store and in the catalog, and settle the null folder's name.

    Args:
        store: connected.
        known: the table as the catalog holds it; ``None`` where there is no catalog, or it does not know the table.
        table_root: key of the table's folder.
        hive_columns: configured partition columns that are folders.
        timestamp_column: configured source of time columns.
        null_partition: ``auto``, or the folder value of null.
        partition_order: all configured levels, virtual ones included.
        default_null: what ``auto`` means for a table without a null folder.

    Raises:
        ConfigError: the table has other partition columns.
        ConnectorError: the store did not answer as it should.
    """
    location = f"{store.uri}/{table_root}"
    spec = PartitionSpec(hive_columns, timestamp_column, null_partition, partition_order)
    found, values = existing_layout(store, table_root, hive_columns)
    warning = check_spec(hive_columns, found, f"the table at {location}", spec.virtual)
    if warning:
        logger.warning("%s", warning)
    if known:
        check_catalog_table(known, spec.order, spec.virtual)
    if null_partition != "auto":
        return spec
    return replace(spec, null_value=null_value_of(values) or default_null)


def check_catalog_table(table: CatalogTable, order: Sequence[str], virtual: Sequence[str]) -> None:
    """Refuse a table that the catalog holds with other partition columns.

    Args:
        table: as the catalog holds it.
        order: all configured levels of its tree.
        virtual: those of them that are no folders.

    Raises:
        ConfigError: with both sides in the message.
    """
    if table.partition_spec:  # an empty one is filled by the catalog from the first files
        warning = check_spec(order, [table.partition_spec], "the table in the catalog", virtual)
        if warning:
            logger.warning("%s", warning)
