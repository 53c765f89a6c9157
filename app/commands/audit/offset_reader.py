"""Reads the offsets that data files hold, without their other columns."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.commands.audit.file_ledger import ListedFile
from app.commands.audit.offset_ranges import Range, gaps, intersection, ranges_of, union
from app.commands.audit.offsets import HeldBatch
from app.commands.audit.report import Misplaced, Report
from app.commands.side_by_side import side_by_side
from app.errors import FatalError
from app.storage.base import ObjectStore
from app.table.parquet_reader import RangeFile

OFFSET_COLUMN: Final = "__offset"
_ROWS_AT_ONCE = 1 << 16


class OffsetReader:
    """Reads several files at once, and notes in the report which have no offsets or those of other files.

    Args:
        store, root: where the table is.
        report: gets the notes.
        workers: how many files are read at once.
    """

    def __init__(self, store: ObjectStore, root: str, report: Report, workers: int) -> None:
        self._store = store
        self._root = root
        self._report = report
        self._workers = workers

    def batches(self, files: Iterable[ListedFile]) -> Iterator[HeldBatch]:
        """Yield the batches with the offsets that their files hold; the files of a batch come together.

        Several rows of one offset are one: a message may have become several, in several folders.
        """
        read = side_by_side(self._workers, self._offsets_in, files)
        for part, of_batch in groupby(read, key=lambda entry: entry[0].part):
            named = Range(part.offsets.first, part.offsets.last)
            held: list[pa.Array] = []
            of_shared: Sequence[Range] = ()
            count = 0
            is_known = True
            for file, offsets in of_batch:
                count += file.files
                if offsets is not None:
                    self._check_name(file, offsets, named)
                    held.append(offsets)
                elif file.held is not None:
                    of_shared = file.held
                else:
                    is_known = False
                    self._report.without_offsets += bool(file.key)  # others are counted already
            ranges = ranges_of(pa.chunked_array(held, pa.int64()).combine_chunks())
            yield HeldBatch(part, count, intersection(union([*ranges, *of_shared]), [named]) if is_known else [named])

    def _offsets_in(self, file: ListedFile) -> pa.Array | None:
        if not file.key:
            return None
        return read_offsets(self._store, file.key, file.size, OFFSET_COLUMN)

    def _check_name(self, file: ListedFile, offsets: pa.Array, named: Range) -> None:
        bounds = pc.min_max(offsets).as_py()
        if not len(offsets) or named.first <= bounds["min"] <= bounds["max"] <= named.last:
            return
        outside = [each for held in ranges_of(offsets) for each in gaps([named], held)]
        key = file.key.removeprefix(f"{self._root}/")
        self._report.misplaced.add(Misplaced(key, outside[0], sum(each.size for each in outside)))


def read_offsets(store: ObjectStore, key: str, size: int, column: str) -> pa.Array | None:
    """The offsets in a file; a small file is one request to the store, others three or more.

    Args:
        store: where the file is.
        key: the file.
        size: of the file, in bytes.
        column: the name of the column that holds offsets.

    Returns:
        The distinct ones, int64 without nulls in any order; ``None`` for a file that has no such column of integers.

    Raises:
        ConnectorError: the store's; ``FatalError`` also for an object that is no Parquet file.
    """
    try:
        with pq.ParquetFile(RangeFile(store, key, size)) as file:
            schema = file.schema_arrow
            if schema.names.count(column) != 1 or not pa.types.is_int64(schema.field(column).type):
                return None
            batches = file.iter_batches(_ROWS_AT_ONCE, columns=[column], use_threads=False)
            return pa.chunked_array([batch.column(0).drop_null() for batch in batches], pa.int64()).unique()
    except pa.ArrowException as error:
        raise new_read_error(store, key, column, error) from error


def new_read_error(store: ObjectStore, key: str, column: str, error: pa.ArrowException) -> FatalError:
    """The error of a file whose column cannot be read."""
    return FatalError(
        f"reading the column {column} of {store.uri}/{key}",
        f"it is no sound Parquet file: {' '.join(str(error).split()).rstrip('.')}",
        "Move it out of the folder, or restore it",
    )
