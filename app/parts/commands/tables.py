"""Finds tables without Kafka: those that the consumer group has had, and one by the settings and the catalog.

A ``ConnectorError`` of the store or the catalog comes through every function here.
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


def tables_of_group(settings: Settings, store: ObjectStore, known: Container[str] = ()) -> Iterator[Settings]:
    """Settings of each table that the consumer group has had, where each topic has one, but for those that are known.

    Kafka is not asked: a topic may be gone while its table has rows.
    """
    groups = (settings.consumer_group, f"{settings.workspace_id}-{settings.consumer_group}")  # as the platform has it
    noted = {found.key.rpartition("/")[2] for each in groups for found in store.list(noted_topics(settings.root, each))}
    for topic in sorted(filter(settings.has_table, noted)):
        of_topic = settings.of_topic(topic)
        root = f"{settings.root}/{of_topic.table}"  # a catalog may have the table elsewhere
        if of_topic.table not in known and (
            settings.catalog or any(next(store.list(group_folder(root, each)), None) for each in groups)
        ):
            yield of_topic


def find_table(
    settings: Settings, store: ObjectStore | None = None
) -> tuple[ObjectStore, TableLocation, CatalogTable | None, Catalog | None]:
    """The store and the table's folder in it, the table as the catalog has it, and the catalog, if there is one."""
    store = store or new_store(settings)
    catalog = new_catalog(settings, store)
    known = catalog.check() if catalog else None
    return store, new_location(settings, store, known), known, catalog


def require_table(store: ObjectStore, location: TableLocation) -> None:
    """Refuses a table without a file, a journal and a dead letter, which is most often a misspelled one."""
    if not any(next(store.list(root), None) for root in object_roots(location.root)):
        raise ConfigError("looking for the table", f"there is nothing in {location.uri}", CHECK_THE_NAME)
