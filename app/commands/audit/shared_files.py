"""Reads which offsets the files of several topic-partitions hold: their names do not say it, their footers do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.commands.audit.file_ledger import FileLedger, ObjectOfBatch, SharedBatch
from app.commands.audit.offset_ranges import Range, gaps, ranges_of
from app.commands.audit.offset_reader import OFFSET_COLUMN, new_read_error
from app.commands.audit.report import Misplaced, Report
from app.commands.side_by_side import side_by_side
from app.model import BatchPart, OffsetRange, TopicPartition
from app.spark.batch_offsets import read_batch_offsets
from app.storage.base import ObjectStore
from app.table.layout import topic_in_names
from app.table.parquet_reader import RangeFile, read_footer

PARTITION_COLUMN: Final = "__partition"
TOPIC_COLUMN: Final = "__topic"
_KINDS: Final = {OFFSET_COLUMN: pa.int64(), PARTITION_COLUMN: pa.int32(), TOPIC_COLUMN: pa.string()}
_ROWS_AT_ONCE = 1 << 16


class SharedFiles:
    """Finds the topic-partitions of each batch that has such files, and their offsets.

    Args:
        store, root: where the table is.
        ledger: has the files, and gets what they hold as parts of their batches.
        report: gets the notes.
        workers: how many files are read at once.
    """

    def __init__(self, store: ObjectStore, root: str, ledger: FileLedger, report: Report, workers: int) -> None:
        self._store = store
        self._root = root
        self._ledger = ledger
        self._report = report
        self._workers = workers

    def resolve(self, *, by_column: bool) -> None:
        """Read one footer of each batch, for all its files have the same offsets in them.

        Args:
            by_column: read the columns of all files too.

        Raises:
            ConnectorError: the store's; ``FatalError`` for a file that cannot be read.
        """
        for batch, offsets in side_by_side(self._workers, self._offsets_of, self._ledger.shared_batches()):
            files = self._ledger.shared_files(batch)
            if not offsets:
                self._report.files -= batch.files
                for file in files:
                    self._report.foreign.add(self._name(file))
                continue
            held = self._held(files, offsets) if by_column else None
            for each in offsets:
                tp = TopicPartition(topic_in_names(each.tp.topic), each.tp.partition)
                part = BatchPart(OffsetRange(tp, each.first, each.last), batch.owner, batch.number)
                self._ledger.add_shared_part(part, batch.files, held[each.tp] if held else None)

    def _offsets_of(self, batch: SharedBatch) -> tuple[OffsetRange, ...]:
        smallest = batch.smallest
        return read_batch_offsets(read_footer(self._store, smallest.key, smallest.size).metadata)

    def _held(
        self, files: Iterable[ObjectOfBatch], offsets: Sequence[OffsetRange]
    ) -> dict[TopicPartition, list[Range]] | None:
        """The offsets in all files of a batch; ``None`` where a file does not say them."""
        named = {each.tp: Range(each.first, each.last) for each in offsets}
        topics = {each.tp.topic for each in offsets}
        only_topic = next(iter(topics)) if len(topics) == 1 else None
        held: dict[TopicPartition, list[pa.Array]] = {tp: [] for tp in named}
        is_known = True

        def read(file: ObjectOfBatch) -> Mapping[TopicPartition, pa.Array] | None:
            return read_offsets_by_partition(self._store, file.key, file.size, only_topic)

        for file, found in side_by_side(self._workers, read, files):
            if found is None:
                is_known = False
                self._report.without_offsets += 1
                continue
            for tp, array in found.items():
                self._check(file, array, named.get(tp))
                if tp in held:
                    held[tp].append(array)
        if not is_known:
            return None
        return {tp: ranges_of(pa.chunked_array(arrays, pa.int64()).combine_chunks()) for tp, arrays in held.items()}

    def _check(self, file: ObjectOfBatch, offsets: pa.Array, named: Range | None) -> None:
        ranges = ranges_of(offsets)
        outside = [part for each in ranges for part in (gaps([named], each) if named else [each])]
        if outside:
            self._report.misplaced.add(Misplaced(self._name(file), outside[0], sum(each.size for each in outside)))

    def _name(self, file: ObjectOfBatch) -> str:
        return file.key.removeprefix(f"{self._root}/")


def read_offsets_by_partition(
    store: ObjectStore, key: str, size: int, only_topic: str | None
) -> Mapping[TopicPartition, pa.Array] | None:
    """The offsets of each topic-partition in a file.

    Args:
        store: where the file is.
        key: the file.
        size: of the file, in bytes.
        only_topic: the one that all rows are of; ``None`` reads it from the file.

    Returns:
        The distinct ones, int64 without nulls in any order; ``None`` for a file without the columns that tell them.

    Raises:
        ConnectorError: the store's; ``FatalError`` also for an object that is no Parquet file.
    """
    names = [OFFSET_COLUMN, PARTITION_COLUMN] + ([] if only_topic else [TOPIC_COLUMN])
    try:
        with pq.ParquetFile(RangeFile(store, key, size)) as file:
            schema = file.schema_arrow
            if any(schema.names.count(name) != 1 or schema.field(name).type != _KINDS[name] for name in names):
                return None
            batches = list(file.iter_batches(_ROWS_AT_ONCE, columns=names, use_threads=False))
    except pa.ArrowException as error:
        raise new_read_error(store, key, OFFSET_COLUMN, error) from error
    table = pa.Table.from_batches(batches, pa.schema([(name, _KINDS[name]) for name in names])).drop_null()
    return dict(_by_partition(table, only_topic))


def _by_partition(table: pa.Table, only_topic: str | None) -> Iterator[tuple[TopicPartition, pa.Array]]:
    keys = [name for name in table.column_names if name != OFFSET_COLUMN]
    for found in table.group_by(keys).aggregate([]).to_pylist():
        is_of = pc.equal(table[PARTITION_COLUMN], found[PARTITION_COLUMN])
        if only_topic is None:
            is_of = pc.and_(is_of, pc.equal(table[TOPIC_COLUMN], found[TOPIC_COLUMN]))
        tp = TopicPartition(only_topic or found[TOPIC_COLUMN], found[PARTITION_COLUMN])
        yield tp, table[OFFSET_COLUMN].filter(is_of).unique()
