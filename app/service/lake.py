"""Builds the store and the table's parts from the settings: location, layout, schema, and the catalogs.

A ``ConnectorError`` of the store or the catalog comes through every function here.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
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

_LAST_WORDS_SECONDS = 1.0  # for the last notifications of new files


@dataclass(frozen=True, slots=True)
class Lake:
    """The store, and the table in it with its schema."""

    store: ObjectStore
    location: TableLocation
    spec: PartitionSpec
    schema: SchemaStore
    registrar: Registrar


def open_lake(settings: Settings, waits: Waits, store: ObjectStore, ends: ExitStack) -> Lake:
    """Connect to the catalog, then to the table's store, and compare the settings with the table."""
    if catalog := new_catalog(settings, store, announces=True):
        ends.callback(catalog.close, _LAST_WORDS_SECONDS)
    known = waits.at_start("catalog", catalog.check) if catalog else None
    location = new_location(settings, store, known)
    waits.at_start("store", lambda: store.connect(f"{location.root}/"))
    lake = waits.at_start("store", lambda: new_lake(settings, store, location, known, catalog))
    waits.at_start("store", lake.schema.open)
    if settings.transforms:  # the first batch needs them
        waits.at_start("catalog", lambda: lake.registrar.prepare(has_batch=False))
    return lake


def check_journals(lake: Lake, group: str) -> None:
    """Check that the store can keep the journal and the schema, and which groups have journals."""
    warn_of_other_groups(lake.store, lake.location.root, group)
    try_out(lake.store, journal_folder(lake.location.root))


def new_location(settings: Settings, store: ObjectStore, known: CatalogTable | None) -> TableLocation:
    """The table's folder: where the catalog has it, else where the settings say."""
    configured = TableLocation(store.uri, f"{settings.root}/{settings.table}")
    return adopted(known, configured, settings.workspace_id if settings.uses_platform_storage else None)


def new_catalog(settings: Settings, store: ObjectStore, *, announces: bool = False) -> Catalog | None:
    """The catalog, without a request to it; ``None`` without one. One that ``announces`` tells others of new files."""
    if (target := settings.catalog) is None:
        return None
    new: Callable[..., Catalog] = resolve_name(settings.catalog_kind.new)
    return new(target, store, announces)


def new_lake(
    settings: Settings,
    store: ObjectStore,
    location: TableLocation,
    known: CatalogTable | None = None,
    catalog: Catalog | None = None,
) -> Lake:
    """The table's parts, if the settings do not contradict the table in the store or in the catalog.

    ``known`` is the table as the catalog has it. The schema is not read yet.
    """
    default_null = QUIX_NULL if settings.catalog else HIVE_NULL
    spec = open_table(store, known, location.root, settings.spec, default_null)
    if settings.transforms or (known and known.computed()):
        spec = replace(spec, computed_bytes=COMPUTED_BYTES)
    if spec.keeps_columns and known and settings.partitions and {*settings.partitions} != {*known.partitions}:
        logger.warning(
            "HIVE_COLUMNS=%s is for a new table: this one stays partitioned by %s",
            ",".join(settings.partitions),
            ",".join(known.partitions) or "nothing",
        )
    if not spec.keeps_columns and (hidden := [name for name in spec.columns if name.startswith("_")]):
        logger.warning(
            "HIVE_COLUMNS: some engines, such as pyarrow, see no row in folders that begin with _: %s. See %s",
            ", ".join(hidden),
            f"{DOCUMENTS}/engines.md#what-each-engine-reads",
        )
    of_catalog = None
    if settings.catalog_kind.is_table:
        columns = known.columns if known and known.columns is not None else pa.schema([])
        of_catalog = TableSchema.of_others(column for column in columns if column.name not in spec.columns)
    registrar = Registrar(catalog if settings.auto_discover else None, location, spec, settings.input_topic, known)
    schema = SchemaStore(store, location.root, settings.column_types, of_catalog, spec.time_zone)
    return Lake(store, location, spec, schema, registrar)


def new_store(settings: Settings) -> ObjectStore:
    """The store, not connected yet. Loads only its own SDK: each takes a good part of a second."""
    workers = (4 if settings.has_tables else 2) * settings.max_write_workers  # uploads, and journals beside them
    match settings.storage:
        case LocalTarget() as target:
            return LocalStore(target.folder)
        case S3Target() as target:
            from app.storage.s3.store import S3Store

            return S3Store(target, sse=settings.s3_sse, sse_kms_key_id=settings.s3_sse_kms_key_id, max_workers=workers)
        case target:
            new: Callable[..., ObjectStore] = resolve_name(STORES[target.uri.partition("://")[0]])
            return new(target, max_workers=workers)
