"""Stores the change in progress of a folder (the folder's record), and the last maintenance of a table.

``<table>/_journal/compact-<digest of the folder>.json`` is the record. If no change is in progress, the record is a
random word. Each write is conditional, so only one of two runs can begin a change. Each version is different, because
stores identify a version by its content. ``tests/model/compaction_model.py`` models the protocol.

``<table>/_journal/last-compaction.json`` contains the last maintenance. All members of the consumer group show this
document. The member that first writes the document begins the next maintenance. Losing the document costs only work.
"""

import dataclasses
import hashlib
import json
import math
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial

from app.model import Maintenance
from app.storage.base import ChangedError, ObjectStore, StoredObject
from app.storage.document import Document, Form
from app.table.layout import is_data_file, journal_folder

_VERSION = 1
_WORD = 16  # size in bytes of a record without a change in progress; a record with a change is longer
_STAGING = ".d/"
_REMEDY = "Use the release that wrote it"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A change of a folder: the input files, and the merged file that replaces these inputs."""

    folder: str  # path below the table's root
    deleted: Sequence[str]  # object keys of the inputs to delete after the upload of ``out``
    # Object keys of the inputs to replace by placeholders: files that the catalog lists, and merged files, because a
    # stalled run may upload a merged file again.
    emptied: Sequence[str]
    out: str | None  # object key of the merged file; ``None`` if no rows remain
    rows: int  # number of rows in ``out``

    @property
    def inputs(self) -> Sequence[str]:
        """The object keys of all input files."""
        return [*self.deleted, *self.emptied]


FolderRecord = Document[Replacement | None]


def read_record(store: ObjectStore, table_root: str, folder: str) -> FolderRecord:
    """Read the record of a folder. Raise ``UnreadableError`` if the record cannot be parsed."""
    return _read(store, f"{_prefix(table_root)}{hashlib.sha256(folder.encode()).hexdigest()[:32]}.json", table_root)


def open_records(store: ObjectStore, table_root: str) -> Iterator[tuple[FolderRecord, Replacement, StoredObject]]:
    """Yield each record with a change in progress, the change, and the record's entry in the listing."""
    for stored in listed_as_open(store, table_root):
        record = _read(store, stored.key, table_root)
        if record.current is not None:
            yield record, record.current, stored


def listed_as_open(store: ObjectStore, table_root: str) -> Iterator[StoredObject]:
    """List the records with a change in progress. The decision needs only the size of each record."""
    listed = store.list(_prefix(table_root))
    return (stored for stored in listed if stored.size > _WORD and stored.key.endswith(".json"))


def staging_folder(table_root: str, token: str) -> str:
    """Return the folder where executors of a Spark cluster write a merged file."""
    return f"{_prefix(table_root)}{token}{_STAGING}"


def staged_files(store: ObjectStore, table_root: str) -> Iterator[StoredObject]:
    """List the files in all staging folders."""
    return (stored for stored in store.list(_prefix(table_root)) if _STAGING in stored.key)


def _prefix(table_root: str) -> str:
    """Return the prefix of records. Journals have other prefixes, because each consumer group has a folder."""
    return f"{journal_folder(table_root)}compact-"


def _read(store: ObjectStore, key: str, table_root: str) -> FolderRecord:
    form = Form("the record of a compaction", partial(_parse, table_root=table_root), _body, _REMEDY)
    record = Document(store, key, form)
    record.read()
    return record


def _new_word() -> str:
    return secrets.token_hex(_WORD // 2)


def _body(replacement: Replacement | None) -> bytes:
    word = _new_word()
    if replacement is None:
        return word.encode()
    return json.dumps({"version": _VERSION, **asdict(replacement), "holder": word}).encode()


def _parse(body: bytes, table_root: str) -> Replacement | None:
    if re.fullmatch(rb"[0-9a-f]{%d}" % _WORD, body):
        return None
    try:
        fields = json.loads(body)
        if fields["version"] != _VERSION:
            raise ValueError("it is of another version")
        replacement = Replacement(**{name: fields[name] for name in Replacement.__slots__})
        keys = [*replacement.inputs, *([] if replacement.out is None else [replacement.out])]
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    folder = f"{table_root}/{replacement.folder}".rstrip("/")
    if not all(is_data_file(key, table_root) and key.rpartition("/")[0] == folder for key in keys):
        raise ValueError("it lists keys that are not data files of its folder")
    return replacement


def last_maintenance(store: ObjectStore, table_root: str) -> Document[Maintenance]:
    """Return the document with the last maintenance. The caller must read the document."""
    key = f"{journal_folder(table_root)}last-compaction.json"
    return Document(
        store, key, Form("the last maintenance", _parse_maintenance, _maintenance_body, "Delete the object")
    )


def keep_maintenance(store: ObjectStore, table_root: str, **done: float) -> None:
    """Store the result of a command. ``done`` contains fields of ``Maintenance``."""
    document = last_maintenance(store, table_root)
    before = document.read() or Maintenance()
    with suppress(ChangedError):  # another run has begun or ended at the same moment
        document.write(dataclasses.replace(before, **done))


def _maintenance_body(maintenance: Maintenance) -> bytes:
    return json.dumps({**dataclasses.asdict(maintenance), "word": _new_word()}).encode()


def _parse_maintenance(body: bytes) -> Maintenance:
    try:
        fields = {**dataclasses.asdict(Maintenance()), **json.loads(body)}  # earlier releases wrote fewer fields
        values = {each.name: float(fields[each.name]) for each in dataclasses.fields(Maintenance)}
        if not all(map(math.isfinite, values.values())):
            raise ValueError("it has a number that is not finite")
        return Maintenance(**values)
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
