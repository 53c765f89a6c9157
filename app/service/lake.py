"""Creates the store and the table's parts from the settings: location, layout, schema, and the catalog.

All functions of this module raise the ``ConnectorError`` of the store or the catalog.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pkgutil import resolve_name

import pyarrow as pa

from app import DOCUMENTS
from app.catalog.base import Catalog
from app.catalog.registrar import Registrar
from app.config.settings import Settings
from app.journal.journal import warn_of_other_groups
from app.parts import STORES
from app.retries import Waits
from app.storage.base import ObjectStore
from app.storage.conditional import try_out
from app.storage.local.store import LocalStore
from app.storage.targets import LocalTarget, S3Target
from app.table.existing_table import CatalogTable, TableLocation, adopted, open_table
from app.table.layout import COMPUTED_BYTES, HIVE_NULL, QUIX_NULL, PartitionSpec, journal_folder
from app.table.schema import TableSchema
from app.table.schema_store import SchemaStore

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 1.0  # seconds for the last notifications of new files


@dataclass(frozen=True, slots=True)
class Lake:
    """The store, and the table in this store with its schema."""

    store: ObjectStore
    location: TableLocation
    spec: PartitionSpec
    schema: SchemaStore
    registrar: Registrar


def open_lake(settings: Settings, waits: Waits, store: ObjectStore, ends: ExitStack) -> Lake:
    """Connect to the catalog, then to the store of the table, and compare the settings with the table."""
    if catalog := new_catalog(settings, store, announces=True):
        ends.callback(catalog.close, _CLOSE_SECONDS)
    table = waits.at_start("catalog", catalog.check) if catalog else None
    if catalog and table is None and settings.catalog_kind.is_table:  # the catalog may choose the location
        table = waits.at_start("catalog", partial(_create_table, settings, store, catalog))
    location = new_location(settings, store, table)
    waits.at_start("store", lambda: store.connect(f"{location.root}/"))
    lake = waits.at_start("store", lambda: new_lake(settings, store, location, table, catalog))
    waits.at_start("store", lake.schema.open)
    return lake


def _create_table(settings: Settings, store: ObjectStore, catalog: Catalog) -> CatalogTable:
    table = catalog.create_table(new_location(settings, store, None).uri, settings.spec)
    logger.info("registered the table at %s in the catalog", table.location)
    return table


def check_journals(lake: Lake, group: str) -> None:
    """Check that the store can keep the journal and the schema. Warn of journals of other consumer groups."""
    warn_of_other_groups(lake.store, lake.location.root, group)
    try_out(lake.store, journal_folder(lake.location.root))


def new_location(settings: Settings, store: ObjectStore, table: CatalogTable | None) -> TableLocation:
    """Return the table's folder: the location in the catalog or, without one, the location in the settings."""
    configured = TableLocation(store.uri, f"{settings.root}/{settings.table}")
    return adopted(table, configured, settings.workspace_id if settings.uses_platform_storage else None)


def new_catalog(settings: Settings, store: ObjectStore, *, announces: bool = False) -> Catalog | None:
    """Create the catalog of the settings, without a request. ``announces``: it reports new files to readers."""
    if (target := settings.catalog) is None:
        return None
    new: Callable[..., Catalog] = resolve_name(settings.catalog_kind.new)
    return new(target, store, announces)


def new_lake(
    settings: Settings,
    store: ObjectStore,
    location: TableLocation,
    table: CatalogTable | None = None,
    catalog: Catalog | None = None,
) -> Lake:
    """Create the table's parts. Raises an error if the settings contradict the table in the store or catalog.

    ``table`` is the table in the catalog. The schema is not read yet.
    """
    default_null = QUIX_NULL if settings.catalog else HIVE_NULL
    spec = open_table(store, table, location.root, settings.spec, default_null)
    if settings.transforms or (table and table.computed()):
        spec = replace(spec, computed_bytes=COMPUTED_BYTES)
    if spec.keeps_columns and table and settings.partitions and {*settings.partitions} != {*table.partitions}:
        logger.warning(
            "HIVE_COLUMNS=%s applies only to new tables: this table stays partitioned by %s",
            ",".join(settings.partitions),
            ",".join(table.partitions) or "nothing",
        )
    if not spec.keeps_columns and (hidden := [name for name in spec.columns if name.startswith("_")]):
        logger.warning(
            "HIVE_COLUMNS: some engines, such as pyarrow, find no rows in folders that begin with _: %s. See %s",
            ", ".join(hidden),
            f"{DOCUMENTS}/engines.md#what-each-engine-reads",
        )
    catalog_schema = None
    if settings.catalog_kind.is_table:
        columns = table.columns if table and table.columns is not None else pa.schema([])
        catalog_schema = TableSchema.of_others(column for column in columns if column.name not in spec.columns)
    registrar = Registrar(catalog if settings.auto_discover else None, location, spec, settings.input_topic, table)
    schema = SchemaStore(store, location.root, settings.column_types, catalog_schema, spec.time_zone)
    return Lake(store, location, spec, schema, registrar)


def new_store(settings: Settings) -> ObjectStore:
    """Create the store without connecting. Only the SDK of this store is loaded, because an SDK loads slowly."""
    workers = (4 if settings.has_tables else 2) * settings.max_write_workers  # threads for uploads and journals
    match settings.storage:
        case LocalTarget() as target:
            return LocalStore(target.folder)
        case S3Target() as target:
            from app.storage.s3.store import S3Store

            if settings.catalog_vended_credentials:
                target = replace(target, lend=resolve_name(settings.catalog_kind.new_lender)(settings.catalog))
            return S3Store(target, sse=settings.s3_sse, sse_kms_key_id=settings.s3_sse_kms_key_id, max_workers=workers)
        case target:
            new: Callable[..., ObjectStore] = resolve_name(STORES[target.uri.partition("://")[0]])
            return new(target, max_workers=workers)
