"""Which Iceberg tables ``audit`` cannot look at."""

from app.catalog.iceberg.rewrite import Rewrite
from app.catalog.iceberg.table import IcebergTable
from app.commands.audit.batches import part_in_name
from app.config.settings import Settings
from app.errors import ConfigError
from app.formatting import counted
from app.service.lake import new_catalog
from app.storage.base import ObjectStore


def refuse_merged(settings: Settings, store: ObjectStore) -> None:
    """Refuses a table with merged files: they do not name their batches, whose files stay with former snapshots.

    Raises:
        ConfigError: how an engine counts instead.
    """
    catalog = new_catalog(settings, store)
    assert isinstance(catalog, IcebergTable)  # noqa: S101 - the settings say so
    if not catalog.load():
        return
    files = Rewrite(catalog, store, None, 0).files()
    if others := [file.key.rpartition("/")[2] for file in files if part_in_name(file.key) is None]:
        raise ConfigError(
            f"auditing {catalog.words}",
            f"{counted(len(others), 'file')} of it, such as {others[0]}, were merged or written by others, and do not "
            "name their offsets",
            "With METADATA_COLUMNS, ask an engine for count(*), count(DISTINCT __offset), min(__offset) and "
            "max(__offset) GROUP BY __partition",
        )
