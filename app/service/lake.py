"""Builds the table's parts from the settings: location, layout, schema, and the catalogs that list its files."""

from dataclasses import dataclass, replace

import pyarrow as pa

from app.catalog.base import Catalog
from app.catalog.query_api import QueryApi
from app.catalog.quix import QuixCatalog
from app.catalog.registrar import Registrar
from app.config.settings import Settings
from app.errors import ConfigError
from app.journal.survey import warn_of_other_groups
from app.monitoring.waits import Waits
from app.service.stores import new_store
from app.storage.base import ObjectStore
from app.storage.probe import try_out
from app.storage.targets import AzureTarget
from app.table.catalog_table import CatalogTable, TableProperties
from app.table.compatibility import open_table
from app.table.layout import PartitionSpec, dead_letter_root, journal_folder, object_roots
from app.table.location import TableLocation, adopted
from app.table.null_folder import HIVE_NULL, QUIX_NULL
from app.table.schema import TableSchema
from app.table.schema_store import SchemaStore


@dataclass(frozen=True, slots=True)
class Lake:
    """The connected store, and the table in it with its schema."""

    store: ObjectStore
    location: TableLocation
    spec: PartitionSpec
    schema: SchemaStore
    registrar: Registrar
    query_api: QueryApi | None


def open_lake(settings: Settings, waits: Waits) -> Lake:
    """Connect to the catalog, then to the table's store, and compare the settings with the table.

    ``waits`` repeats what fails, and shows the system that does not answer.

    Raises:
        ConnectorError: the catalog or the store fails, after retries where the error is retryable.
    """
    store = new_store(settings)
    catalog = new_catalog(settings, store)
    known = waits.at_start("catalog", catalog.check) if catalog else None
    location = new_location(settings, store, known)
    waits.at_start("store", lambda: store.connect(f"{location.root}/"))
    spec = waits.at_start("store", lambda: new_spec(settings, store, location, known))
    schema = new_schema(settings, store, location, known)
    waits.at_start("store", schema.open)
    query_api = new_query_api(settings)
    return Lake(store, location, spec, schema, new_registrar(settings, catalog, location, known, query_api), query_api)


def check_journals(lake: Lake, group: str) -> None:
    """Check that the store can keep the journal and the schema, and which groups have journals."""
    warn_of_other_groups(lake.store, lake.location.root, group)
    try_out(lake.store, journal_folder(lake.location.root))


def new_location(settings: Settings, store: ObjectStore, known: CatalogTable | None) -> TableLocation:
    """The table's folder: where the catalog has it, else where the settings say.

    Raises:
        ConfigError: its location in the catalog is outside of the store.
    """
    configured = TableLocation(store.uri, f"{settings.root}/{settings.table}")
    return adopted(known, configured, settings.workspace_id if settings.uses_platform_storage else None)


def dead_letter_address(store_uri: str, table_root: str) -> str:
    """The address of the folder with the table's dead letter."""
    return f"{store_uri}/{dead_letter_root(table_root)}"


def find_table(settings: Settings) -> tuple[ObjectStore, TableLocation]:
    """The store and the table's folder in it, for commands that only read.

    Raises:
        ConnectorError: of the catalog, where there is one.
    """
    store = new_store(settings)
    catalog = new_catalog(settings, store)
    return store, new_location(settings, store, catalog.check() if catalog else None)


def require_table(store: ObjectStore, location: TableLocation) -> None:
    """Refuses a table without a file, a journal and a dead letter, which is most often a misspelled one."""
    if not any(next(store.list(root), None) for root in object_roots(location.root)):
        hint = "Check TABLE_NAME (without it, input names the table), S3_PREFIX and the store"
        raise ConfigError("looking for the table", f"there is nothing in {location.uri}", hint)


def new_catalog(settings: Settings, store: ObjectStore) -> Catalog | None:
    """The catalog, without a request to it; ``None`` without one. Iceberg's metadata is kept in the store."""
    if settings.iceberg:
        from app.catalog.iceberg.table import IcebergTable  # noqa: PLC0415 - loads pyiceberg

        storage = settings.storage
        return IcebergTable(
            settings.iceberg.properties,
            store,
            storage.dfs_uri if isinstance(storage, AzureTarget) else storage.uri,
            namespace=settings.catalog_namespace,
            table=settings.table,
            group=settings.consumer_group,
            keep_days=settings.iceberg.keep_days,
        )
    target = settings.catalog
    if target is None:
        return None
    return QuixCatalog(
        target.url,
        target.token,
        settings.catalog_namespace,
        settings.table,
        workspace_id=settings.workspace_id or "",
        stats_columns=frozenset(settings.stats_columns) or None,
    )


def table_properties(settings: Settings) -> TableProperties:
    """The properties that the catalog stores beside the table's location."""
    return TableProperties(
        settings.partition_order,
        settings.timestamp_column,
        settings.virtual_columns,
        settings.sort_column,
        settings.stats_columns,
    )


def new_spec(
    settings: Settings, store: ObjectStore, location: TableLocation, known: CatalogTable | None
) -> PartitionSpec:
    """The table's layout, compared with the table in the store and in the catalog.

    Raises:
        ConfigError: the settings contradict the table.
        ConnectorError: the store fails.
    """
    spec = open_table(
        store,
        known,
        table_root=location.root,
        hive_columns=settings.hive_columns,
        timestamp_column=settings.timestamp_column,
        null_partition=settings.null_partition,
        partition_order=settings.partition_order,
        default_null=HIVE_NULL if settings.catalog is None else QUIX_NULL,
    )
    return replace(spec, in_files=settings.is_iceberg)


def new_query_api(settings: Settings) -> QueryApi | None:
    """The query API, to be notified of new files; ``None`` if nothing is registered or the platform names none."""
    if settings.catalog is None or not settings.auto_discover or settings.platform_query_url is None:
        return None
    token = settings.platform_query_token
    return QueryApi(
        settings.platform_query_url,
        token.get_secret_value() if token else None,
        settings.catalog_namespace,
        settings.table,
    )


def new_registrar(
    settings: Settings,
    catalog: Catalog | None,
    location: TableLocation,
    known: CatalogTable | None,
    query_api: QueryApi | None = None,
) -> Registrar:
    """Step 6, with the catalog's table that ``new_spec`` compared."""
    return Registrar(
        catalog if settings.auto_discover else None,
        location,
        table_properties(settings),
        settings.input_topic,
        known,
        query_api.files_added if query_api else None,
    )


def new_schema(
    settings: Settings, store: ObjectStore, location: TableLocation, known: CatalogTable | None = None
) -> SchemaStore:
    """The table's schema, not read yet; ``known`` is the table as the catalog has it."""
    return SchemaStore(store, location.root, settings.column_types, _iceberg_columns(settings, known))


def _iceberg_columns(settings: Settings, known: CatalogTable | None) -> TableSchema | None:
    """The columns of an Iceberg table but its partition columns; ``None`` if it is none."""
    if not settings.is_iceberg:
        return None
    columns = known.columns if known and known.columns is not None else pa.schema([])
    return TableSchema.of_others(column for column in columns if column.name not in settings.hive_columns)
