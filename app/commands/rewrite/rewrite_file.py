"""Rewrites one file of a table with the table's schema, and replaces the old one under the same key.

At any moment readers find the whole old file or the whole new one, even if the process is killed.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from app.commands.rewrite.replaced_files import ReplacedFiles, download
from app.commands.rewrite.schema_differences import differences
from app.commands.rewrite.stored_rows import CoercedRows, coerce_stored, same_rows
from app.convert.batch import Schema
from app.errors import ConnectorError, FatalError
from app.model import OffsetRange
from app.retry import Stopped, until_it_works
from app.spark.batch_offsets import read_batch_offsets
from app.storage.base import ChangedError, ObjectStore, StoredObject
from app.table.layout import RESCUED_COLUMN
from app.table.schema import TableSchema
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

_RESCUED = TableSchema({RESCUED_COLUMN: pa.string()})


class WholeWriter(Protocol):
    """``app.spark.writer.SparkWriter`` in production."""

    def write_whole(self, source: Path, columns: Sequence[str], out: Path, offsets: Sequence[OffsetRange]) -> Path: ...


class SkippedError(Exception):
    """A file needs no rewriting any more."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of rewriting a file.

    Sizes are in bytes; ``rescued`` counts values that went to ``_rescued_data``; ``is_last``: a signal came and was
    put off while the file was being replaced.
    """

    rows: int
    size_before: int
    size: int
    rescued: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class _NewFile:
    path: Path
    coerced: CoercedRows
    changed: frozenset[str]


class Rewriter:
    """Rewrites files, one after the other; for the main thread.

    Args:
        store: where the table is.
        writer: writes the new files.
        schema: the table's schema.
        replaced: updates index files and the catalog.
        fixed: columns whose type the user fixed.
        scratch: a folder for copies of the file at hand: of the old one, of all its rows uncompressed, of the new one.
        timings: pauses between attempts to update the catalog.
    """

    def __init__(
        self,
        *,
        store: ObjectStore,
        writer: WholeWriter,
        schema: Schema,
        replaced: ReplacedFiles,
        fixed: frozenset[str],
        scratch: Path,
        timings: Timings = DEFAULT,
    ) -> None:
        self._timings = timings
        self._store = store
        self._writer = writer
        self._schema = schema
        self._replaced = replaced
        self._fixed = fixed
        self._scratch = scratch

    def rewrite(self, key: str) -> Rewritten:
        """Rewrite one file.

        Raises:
            SkippedError: it is gone, or somebody else has changed it meanwhile.
            NotPossibleError: it has types or values that this connector cannot write; it stays as it is.
            ConnectorError: of the store, the catalog or Spark.
        """
        with TemporaryDirectory(dir=self._scratch) as folder:
            old = Path(folder) / "old.parquet"
            etag = download(self._store, key, old)
            if etag is None:
                raise SkippedError("it was deleted meanwhile")
            new = self._make(key, old, Path(folder))
            if new.coerced.rescued:
                self._schema.extend(_RESCUED)
            with _finishing() as stop:
                self._replaced.note(key, etag)
                stored = self._replace(new.path, key, etag)
                patiently = partial(_patiently, stop=stop, timings=self._timings)
                if not self._replaced.update(stored, new.path, new.changed, patiently):
                    logger.warning("%s is rewritten, but %s", key, _LEFT)
            rows = pq.read_metadata(new.path).num_rows
            return Rewritten(rows, old.stat().st_size, stored.size, new.coerced.rescued, stop.is_set())

    def close(self) -> None:
        """Delete the run's note after the last file. Never raises: the next run finds out what is left to do."""
        try:
            self._replaced.end()
        except ConnectorError as error:
            logger.info("%s", error)

    def _make(self, key: str, old: Path, folder: Path) -> _NewFile:
        """Make the new file, and compare its rows with those that Spark was given."""
        table = self._schema.current
        changed = frozenset(each.column for each in differences(pq.read_schema(old), table))
        if not changed:
            raise SkippedError("it has the table's schema by now")
        staged = folder / "staged.parquet"
        coerced = coerce_stored(old, staged, table, self._fixed)
        footer = pq.read_metadata(old)
        offsets = read_batch_offsets(footer.metadata)
        written = self._writer.write_whole(staged, coerced.columns, folder / "out", offsets)
        same_number = footer.num_rows == pq.read_metadata(written).num_rows
        if not same_number or not same_rows(staged, written, coerced.columns):
            raise FatalError(
                f"checking the new {self._store.uri}/{key}",
                "it does not hold the rows of the old one",
                "The old file stays in its place; please report this as a bug",
            )
        return _NewFile(written, coerced, changed)

    def _replace(self, path: Path, key: str, etag: str) -> StoredObject:
        try:
            return self._store.replace(path, key, replaces=etag)
        except ChangedError:
            self._replaced.not_replaced()
            raise SkippedError("somebody else has changed it meanwhile") from None


_LEFT = "the catalog still has its former size and bounds: the next run of rewrite updates it"


def _patiently(work: Callable[[], Any], stop: threading.Event, timings: Timings) -> bool:
    """Try until it works; return ``False`` if the process is to end first."""
    try:
        until_it_works(work, stop=stop, on_wait=lambda _: None, timings=timings)
    except Stopped:
        return False
    return True


@contextmanager
def _finishing() -> Iterator[threading.Event]:
    """Defer signals until the work inside is done; a signal sets the event."""
    asked = threading.Event()

    def remember(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    former = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        try:
            yield asked
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
    except SkippedError:
        if asked.is_set():
            raise KeyboardInterrupt from None
        raise
