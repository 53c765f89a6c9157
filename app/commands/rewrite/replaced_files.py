"""Updates index files (``.vidx/``) and the catalog for files that ``rewrite`` replaces, if need be in a later run.

A replaced file has the table's schema, so no later run would find it. So each run writes a note before it replaces a
file, and a run that is cut off leaves it: ``<table>/_journal/rewrite-<random>.json``.
"""

import json
import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from app.catalog.column_stats import column_stats
from app.catalog.registrar import Registrar
from app.catalog.virtual_index import write_index
from app.errors import FatalError
from app.model import StoredFile
from app.storage.base import ObjectStore, StoredObject, find
from app.table.layout import index_key, journal_folder, spec_of_key

logger = logging.getLogger(__name__)

_LONGEST_RUN = timedelta(days=1)  # between a note and the replacement that it is about


class Note(NamedTuple):
    """A note about the replacement of a file's version ``replaces``, written before it.

    ``name`` and ``etag`` are the note's own; ``catalog`` says whether a catalog was to be updated.
    """

    name: str
    etag: str
    key: str
    replaces: str
    catalog: bool
    written_at: datetime


class ReplacedFiles:
    """Brings index files and the catalog in line with files of a table.

    Args:
        store, table_root: where the table is.
        registrar: updates the catalog.
        virtual_columns: partition columns without folders.
        stats_columns: the only columns with zone maps; ``None`` for all that can have them.
    """

    def __init__(
        self,
        store: ObjectStore,
        table_root: str,
        registrar: Registrar,
        virtual_columns: Sequence[str],
        stats_columns: frozenset[str] | None,
    ) -> None:
        self._store = store
        self._table_root = table_root
        self._registrar = registrar
        self._virtual = virtual_columns
        self._stats_columns = stats_columns
        self._note = f"{_notes(table_root)}{secrets.token_hex(8)}.json"
        self._etag: str | None = None  # of the own note
        self._is_updated = True

    def note(self, key: str, etag: str) -> None:
        """Note this version of a file before its replacement; the file noted before is done."""
        if self._virtual or self._registrar.is_needed:
            body = _body(key=key, replaces=etag, catalog=self._registrar.is_needed)
            self._is_updated = False  # also where the answer is lost
            self._etag = self._store.write(self._note, body, replaces=self._etag)

    def not_replaced(self) -> None:
        """Record that the file noted last was certainly not replaced."""
        self._is_updated = True

    def end(self) -> None:
        """Delete the note at the end of the run, unless something is left to be updated."""
        if self._etag is not None and self._is_updated:
            self._forget(self._note, self._etag)
            self._etag = None

    def _forget(self, name: str, etag: str) -> None:
        """Delete a note; without the right to delete, which nothing else needs, write an empty one."""
        try:
            self._store.delete(name)
        except FatalError as error:
            logger.debug("%s: an empty note stays", error)
            self._store.write(name, _body(), replaces=etag)

    def update(
        self,
        stored: StoredObject,
        path: Path,
        changed: Collection[str],
        patiently: Callable[[Callable[[], Any]], bool],
    ) -> bool:
        """Bring the index file and the catalog up to date.

        Args:
            stored: the file.
            path: a copy of it; another file may be made beside it.
            changed: its changed columns.
            patiently: does one of the steps; ``False`` where it was given up.

        Returns:
            Whether all is up to date.
        """
        names, values = spec_of_key(stored.key, self._table_root)
        partition_values = dict(zip(names, values, strict=True))
        index = path.with_name("index.parquet")
        done = True
        if set(changed).intersection(self._virtual) and write_index(path, self._virtual, partition_values, index):
            done = patiently(lambda: self._store.overwrite(index_key(stored.key), index.read_bytes()))
        if self._registrar.is_needed:
            metadata = pq.read_metadata(path)
            file = StoredFile(
                key=stored.key,
                uri=f"{self._store.uri}/{stored.key}",
                size=stored.size,
                rows=metadata.num_rows,
                partition_values=partition_values,
                last_modified=stored.last_modified,
                column_stats=column_stats(metadata, self._stats_columns),
            )
            done = patiently(lambda: self._registrar.register_again([file])) and done
        self._is_updated = done
        return done

    def finish(self, scratch: Path) -> int:
        """Update index files and the catalog for files that earlier runs have replaced, and perhaps not updated.

        Returns:
            How many there were.

        Raises:
            ConnectorError: of the store or the catalog; the notes that are left stay for the next run.
        """
        finished = 0
        for note in list(notes(self._store, self._table_root)):
            if note.catalog and not self._registrar.is_needed:
                logger.warning(
                    "%s was rewritten, and the catalog does not know it yet: run rewrite with CATALOG_URL", note.key
                )
                continue
            with TemporaryDirectory(dir=scratch) as folder:
                path = Path(folder) / "file.parquet"
                etag = download(self._store, note.key, path)
                stored = find(self._store, note.key) if etag else None
                if etag == note.replaces and datetime.now(UTC) - note.written_at < _LONGEST_RUN:
                    continue  # another run may be at it
                if stored is not None and etag != note.replaces:
                    self.update(stored, path, self._virtual, _at_once)
                    finished += 1
            self._forget(note.name, note.etag)
        return finished


def download(store: ObjectStore, key: str, path: Path) -> str | None:
    """Download a file and return its ETag; ``None`` if it was deleted meanwhile."""
    try:
        return store.download(key, path)
    except FatalError:
        if find(store, key) is not None:
            raise
        return None


def notes(store: ObjectStore, table_root: str) -> Iterator[Note]:
    """Yield the notes of earlier runs; log and skip unreadable ones."""
    for found in store.list(_notes(table_root)):
        document = store.read(found.key)
        if document is None:
            continue
        try:
            fields = json.loads(document.body)
            key, replaces, catalog = str(fields["key"]), str(fields["replaces"]), bool(fields["catalog"])
        except (ValueError, KeyError, TypeError):
            key, replaces, catalog = "none", "", False
        if not key:
            continue
        if not key.startswith(f"{table_root}/") or ".." in key.split("/"):
            logger.warning("%s/%s is no note of a rewrite, and left alone", store.uri, found.key)
            continue
        yield Note(found.key, document.etag, key, replaces, catalog, found.last_modified)


def _body(key: str = "", replaces: str = "", *, catalog: bool = False) -> bytes:
    return json.dumps({"version": 1, "key": key, "replaces": replaces, "catalog": catalog}).encode()


def _notes(table_root: str) -> str:
    """The prefix of the keys of notes; journals lie in folders of their consumer groups, so none has it."""
    return f"{journal_folder(table_root)}rewrite-"


def _at_once(work: Callable[[], Any]) -> bool:
    work()
    return True
