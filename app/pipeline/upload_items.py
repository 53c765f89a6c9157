"""What leaves the scratch folder for the store: data files, their sidecars and dead letters, each with its key."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.bad_records.dead_letter import write as write_dead_letter
from app.catalog.virtual_index import write_index
from app.journal.entry import JournaledFile
from app.journal.journal import Intent
from app.model import BatchPart, Rejected, StoredFile, WrittenFile
from app.pipeline.upload import UploadItem
from app.storage.base import StoredObject
from app.table.layout import data_key, dead_letter_key, file_name, index_key

ColumnStats = Mapping[str, Mapping[str, Any]]


def data_file(file: WrittenFile, table_root: str) -> UploadItem:
    """The item of a file that Spark wrote."""
    group = file.group
    return UploadItem(file.path, data_key(table_root, group.partition_values, file_name(group.part)), group.part.owner)


def dead_letters(
    rejected: Sequence[tuple[BatchPart, Sequence[Rejected]]], table_root: str, folder: Path
) -> list[UploadItem]:
    """Write the rejected records of each topic-partition into a file of its own below ``folder``."""
    upload_items = []
    for index, (part, records) in enumerate(rejected):
        path = folder / f"dead-letter-{index}.parquet"
        write_dead_letter(records, path)
        upload_items.append(UploadItem(path, dead_letter_key(table_root, part), part.owner))
    return upload_items


def sidecars(files: Sequence[WrittenFile], virtual: Sequence[str], table_root: str, folder: Path) -> list[UploadItem]:
    """Write the index of virtual partitions that goes beside each data file, below ``folder``."""
    upload_items = []
    for index, file in enumerate(files if virtual else ()):
        path = folder / f"sidecar-{index}.parquet"
        if write_index(file.path, virtual, file.group.partition_values, path):
            upload_items.append(UploadItem(path, index_key(data_file(file, table_root).key), file.group.part.owner))
    return upload_items


def intents(
    parts: Sequence[BatchPart], files: Sequence[WrittenFile], upload_items: Sequence[UploadItem], table_root: str
) -> dict[str, Intent]:
    """What a batch is about to store, by the token of each assignment that has something to store.

    Args:
        parts: all of the batch.
        files: what Spark wrote.
        upload_items: everything that will be uploaded.
        table_root: key of the table's folder.
    """
    data: dict[str, dict[str, JournaledFile]] = {}
    for file in files:
        key, values = data_file(file, table_root).key, dict(file.group.partition_values)
        journaled = JournaledFile(key=key, size=file.size, rows=file.group.rows, partition_values=values)
        data.setdefault(file.group.part.owner, {})[key] = journaled
    also: dict[str, list[str]] = {}
    for item in upload_items:
        if item.key not in data.get(item.owner, {}):
            also.setdefault(item.owner, []).append(item.key)
    return {
        part.owner: Intent(
            part.number, part.offsets.last, tuple(data.get(part.owner, {}).values()), tuple(also.get(part.owner, ()))
        )
        for part in parts
        if part.owner in data or part.owner in also
    }


def stored_files(
    files: Sequence[WrittenFile],
    stored: Mapping[str, StoredObject],
    table_root: str,
    uri: str,
    stats: Mapping[Path, ColumnStats] | None = None,
) -> list[StoredFile]:
    """The files that reached the store, as the catalog gets to know them.

    Args:
        files: what Spark wrote.
        stored: what was uploaded, by key; files that are not among it are left out.
        table_root: key of the table's folder.
        uri: the store's address.
        stats: zone maps by the path of the file.
    """
    zone_maps = stats or {}
    keyed = [(data_file(file, table_root).key, file) for file in files]
    return [
        StoredFile(
            key=key,
            uri=f"{uri}/{key}",
            size=stored[key].size,
            rows=file.group.rows,
            partition_values=file.group.partition_values,
            last_modified=stored[key].last_modified,
            column_stats=zone_maps.get(file.path, {}),
        )
        for key, file in keyed
        if key in stored
    ]
