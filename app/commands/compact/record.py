"""The record of a folder: which files are being merged into which one, for the run that continues after a crash.

``<table>/_journal/compact-<digest of the folder>.json`` holds a random word while nothing is under way. Each change is
a conditional write, so of two runs one goes on. No two versions are alike, for stores name a version by its content.
``tests/model/compaction_model.py`` has the protocol.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.errors import FatalError
from app.storage.base import ObjectStore, StoredObject
from app.table.layout import journal_folder

_VERSION = 1
_WORD = 16  # bytes of a record with nothing under way; all others are longer
_STAGING = ".d/"


@dataclass(frozen=True, slots=True)
class Intent:
    """What a run is about to do in a folder.

    Attributes:
        folder: below the table's root.
        deleted: keys of files that are deleted once ``out`` is there.
        emptied: keys of files that are replaced by placeholders instead: the catalog lists them, or they are merged
            ones, whose upload may come once more.
        out: key of the merged file, ``None`` if no row is left.
        rows: of ``out``.
        erased: the conditions for the rows that are left out.
        holder: a random word of the run that wrote this.
    """

    folder: str
    deleted: Sequence[str]
    emptied: Sequence[str]
    out: str | None
    rows: int
    erased: Sequence[str] = ()
    holder: str = ""

    @property
    def inputs(self) -> Sequence[str]:
        """The keys of all files that are merged."""
        return [*self.deleted, *self.emptied]


class FolderRecord:
    """One version of a folder's record.

    Args:
        store, key: where it is.
        etag: of this version; ``None`` if there is no object.
        intent: what is under way; ``None`` for nothing.
    """

    def __init__(self, store: ObjectStore, key: str, etag: str | None, intent: Intent | None) -> None:
        self._store = store
        self._key = key
        self._etag = etag
        self.intent = intent

    def is_current(self) -> bool:
        """Whether no other run has worked on the folder since this version was read."""
        found = self._store.read(self._key)
        return (found.etag if found else None) == self._etag

    def write(self, intent: Intent | None) -> None:
        """Replace this version.

        Raises:
            ChangedError: another run was quicker.
        """
        word = secrets.token_hex(_WORD // 2)
        body = word.encode()
        if intent is not None:
            intent = replace(intent, holder=word)
            body = json.dumps({"version": _VERSION, **asdict(intent)}).encode()
        self._etag = self._store.write(self._key, body, replaces=self._etag)
        self.intent = intent


def read_record(store: ObjectStore, table_root: str, folder: str) -> FolderRecord:
    """The record of a folder.

    Raises:
        ConnectorError: of the store; ``FatalError`` for a record that cannot be parsed.
    """
    return _read(store, f"{_prefix(table_root)}{hashlib.sha256(folder.encode()).hexdigest()[:32]}.json", table_root)


def open_records(store: ObjectStore, table_root: str) -> Iterator[tuple[FolderRecord, StoredObject]]:
    """The records with something under way, each with its entry of the listing.

    Raises:
        ConnectorError: as ``read_record``.
    """
    for found in listed_as_open(store, table_root):
        record = _read(store, found.key, table_root)
        if record.intent is not None:
            yield record, found


def listed_as_open(store: ObjectStore, table_root: str) -> Iterator[StoredObject]:
    """The records with something under way, by their sizes."""
    listed = store.list(_prefix(table_root))
    return (found for found in listed if found.size > _WORD and found.key.endswith(".json"))


def staging_folder(table_root: str, token: str) -> str:
    """Where the executors of a cluster write a merged file, before it gets its name."""
    return f"{_prefix(table_root)}{token}{_STAGING}"


def staged_files(store: ObjectStore, table_root: str) -> Iterator[StoredObject]:
    """What executors have left there."""
    return (found for found in store.list(_prefix(table_root)) if _STAGING in found.key)


def _prefix(table_root: str) -> str:
    """Journals lie in folders of their consumer groups, so none has it."""
    return f"{journal_folder(table_root)}compact-"


def _read(store: ObjectStore, key: str, table_root: str) -> FolderRecord:
    document = store.read(key)
    if document is None:
        return FolderRecord(store, key, None, None)
    if len(document.body) <= _WORD:
        return FolderRecord(store, key, document.etag, None)
    try:
        return FolderRecord(store, key, document.etag, _parse(json.loads(document.body), table_root))
    except (ValueError, KeyError, TypeError) as error:
        raise FatalError(
            f"reading {store.uri}/{key}",
            f"it is no record of a compaction that this release knows: {error}",
            "Use the release that wrote it",
        ) from None


def _parse(fields: dict[str, Any], table_root: str) -> Intent:
    if fields.pop("version") != _VERSION:
        raise ValueError("another version")
    intent = Intent(**fields)
    keys = [*intent.inputs, *([] if intent.out is None else [intent.out])]
    if not all(key.startswith(f"{table_root}/") and ".." not in key.split("/") for key in keys):
        raise ValueError("it names files outside of the table")
    return intent
