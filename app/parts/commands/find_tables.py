"""Finds the tables that the consumer group has written, and the table of the settings. Kafka is not queried.

Each function may raise a ``ConnectorError`` of the store or the catalog.
"""

from collections.abc import Container, Iterator
from typing import Final

from app.catalog.base import Catalog
from app.config.settings import Settings
from app.errors import ConfigError
from app.journal.entry import group_folder
from app.journal.first_offsets import noted_topics
from app.service.lake import new_catalog, new_location, new_store
from app.storage.base import ObjectStore
from app.table.existing_table import CatalogTable, TableLocation
from app.table.layout import object_roots

CHECK_THE_NAME: Final = "Check TABLE_NAME (without it, input names the table), S3_PREFIX and the store"


def tables_of_group(settings: Settings, store: ObjectStore, skipped: Container[str] = ()) -> Iterator[Settings]:
    """Yield settings for each table that the consumer group has written, except for the ``skipped`` tables.

    Kafka is not queried, because the topic of a table may have been deleted.
    """
    groups = (settings.consumer_group, f"{settings.workspace_id}-{settings.consumer_group}")  # on the platform
    objects = (stored for group in groups for stored in store.list(noted_topics(settings.root, group)))
    for topic in sorted(filter(settings.has_table, {each.key.rpartition("/")[2] for each in objects})):
        of_topic = settings.of_topic(topic)
        root = f"{settings.root}/{of_topic.table}"  # the catalog may have another location
        if of_topic.table not in skipped and (
            settings.catalog or any(next(store.list(group_folder(root, each)), None) for each in groups)
        ):
            yield of_topic


def find_table(
    settings: Settings, store: ObjectStore | None = None
) -> tuple[ObjectStore, TableLocation, CatalogTable | None, Catalog | None]:
    """Return the store, the table's location, the catalog's table, and the catalog. The last two may be ``None``."""
    store = store or new_store(settings)
    catalog = new_catalog(settings, store)
    catalog_table = catalog.check() if catalog else None
    return store, new_location(settings, store, catalog_table), catalog_table, catalog


def require_table(store: ObjectStore, location: TableLocation) -> None:
    """Raise ``ConfigError`` if the store contains no object of the table. Probably the table's name is misspelled."""
    if not any(next(store.list(root), None) for root in object_roots(location.root)):
        raise ConfigError("looking for the table", f"{location.uri} is empty", CHECK_THE_NAME)
