"""Steps 1 and 2: a batch of rows → one Arrow table by the table's schema → a Parquet file that Spark reads fast."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.bad_records import BadRecords
from app.bad_rows import BadRowsError
from app.lineage import file_name
from app.metadata import metadata_columns
from app.model import Batch, BatchPart, FileGroup, Rejected, Row, StagedFile, known_timestamp
from app.partitioning import PartitionSpec, group_ids, partition_columns, too_long
from app.records import Conversion, Rules, convert
from app.rescue import Rescue
from app.schema import TableSchema

logger = logging.getLogger(__name__)

_GROUP_COLUMN = "__file_group"
_MAX_ROW_GROUP_BYTES = 16 * 2**20  # Spark holds one in its heap, and twice its strings while they are growing
_HINT = "Correct it in app/transform.py or at its producer"

Patiently = Callable[[Callable[[], TableSchema]], TableSchema]


class Schema(Protocol):
    """The table's schema as all members share it; ``app.schema_keeper.SchemaKeeper`` in production."""

    @property
    def current(self) -> TableSchema: ...
    def extend(self, wanted: TableSchema) -> TableSchema: ...


@dataclass(frozen=True, slots=True)
class Staged:
    """What became of a batch.

    ``file`` is ``None`` when no row is left; ``rejected`` are the records for the dead letter, by the index of their
    part; ``rescued`` counts the values that fit no column.
    """

    file: StagedFile | None
    rejected: tuple[tuple[BatchPart, list[Rejected]], ...]
    rescued: int


@dataclass(frozen=True, slots=True)
class _Lines:
    """Rows with the part that each belongs to."""

    rows: Sequence[Row]
    parts: Sequence[int]

    def without(self, bad: Mapping[int, str]) -> "_Lines":
        kept = [index for index in range(len(self.rows)) if index not in bad]
        return _Lines([self.rows[index] for index in kept], [self.parts[index] for index in kept])


class Stager:
    """Converts and stages batches; to be used by one thread.

    Args:
        spec, table_root: how and where the table is laid out.
        schema: the types of its columns.
        fixed: names of the columns whose type the user fixed.
        metadata: names of ``METADATA_COLUMNS``.
        sort_column: orders the rows of a file, where they have it.
        bad_records: what becomes of rows that cannot be written.
    """

    def __init__(
        self,
        *,
        spec: PartitionSpec,
        table_root: str,
        schema: Schema,
        fixed: frozenset[str],
        metadata: Sequence[str],
        sort_column: str | None,
        bad_records: BadRecords,
    ) -> None:
        self._spec = spec
        self._table_root = table_root
        self._schema = schema
        self._rules = Rules(spec.timestamp_column, frozenset(spec.columns), fixed)
        self._metadata = metadata
        self._sort_column = sort_column
        self._bad_records = bad_records
        self._told: set[str] = set()

    def stage(self, batch: Batch, path: Path, patiently: Patiently) -> Staged:
        """Write the batch to ``path``, every row marked with the file it belongs to.

        The file is uncompressed and without dictionaries or statistics: it is read once, on this machine, and 200,000
        rows of it take 30 ms to hand over. Groups are integers rather than the partition columns themselves because
        Spark's dynamic partition write then sorts by one int: 1.5 times as fast as by four strings, and no value can
        upset it.

        Args:
            batch: rows, and records that were rejected already.
            path: of the new file.
            patiently: calls again what the store refuses for a while.

        Raises:
            DataError: a row that cannot be written, where the user wants the process to end then.
        """
        parts = chain.from_iterable(repeat(index, len(rows)) for index, rows in enumerate(batch.rows))
        lines = _Lines(list(chain.from_iterable(batch.rows)), list(parts))
        rejected = list(batch.rejected)
        while lines.rows:
            try:
                file, rescued = self._stage(batch, lines, path, patiently)
            except BadRowsError as error:
                rejected += self._rejected(batch, lines, error.reasons)
                lines = lines.without(error.reasons)
            else:
                return Staged(file, _by_part(batch, rejected), rescued)
        return Staged(None, _by_part(batch, rejected), 0)

    def _stage(self, batch: Batch, lines: _Lines, path: Path, patiently: Patiently) -> tuple[StagedFile, int]:
        ids, groups = self._group(batch, lines)
        conversion = self._convert(batch, lines, patiently)
        self._tell(conversion.rescued)
        group_column = _unused_name(conversion.table.column_names)
        _write(conversion.table.append_column(group_column, ids), path)
        sort_column = self._sort_column if self._sort_column in conversion.table.column_names else None
        rescued = sum(rescue.count for rescue in conversion.rescued.values())
        return StagedFile(path, group_column, groups, sort_column), rescued

    def _group(self, batch: Batch, lines: _Lines) -> tuple[pa.Array, tuple[FileGroup, ...]]:
        """The group of every row, and the groups: one per Hive partition and topic-partition."""
        values = partition_columns(lines.rows, self._spec)
        ids = group_ids([*values, pa.array(lines.parts, pa.int32())])
        counted = pa.table({"id": ids, "row": pa.arange(0, len(ids))})
        counted = counted.group_by("id").aggregate([("row", "min"), ("row", "count")]).sort_by("id")
        groups: list[FileGroup] = []
        unusable: dict[int, str] = {}
        for first, count in zip(counted["row_min"].to_pylist(), counted["row_count"].to_pylist(), strict=True):
            part = batch.parts[lines.parts[first]]
            folder_values = {name: array[first].as_py() for name, array in zip(self._spec.columns, values, strict=True)}
            reason = too_long(self._table_root, folder_values, file_name(part))
            if reason:
                unusable[len(groups)] = reason
            groups.append(FileGroup(part, folder_values, count))
        if unusable:
            of_rows = pc.is_in(ids, pa.array(list(unusable), ids.type))
            raise BadRowsError({row: unusable[ids[row].as_py()] for row in pc.indices_nonzero(of_rows).to_pylist()})
        return ids, tuple(groups)

    def _convert(self, batch: Batch, lines: _Lines, patiently: Patiently) -> Conversion:
        """The rows as a table whose types all members have agreed on."""
        tps = [batch.parts[part].offsets.tp for part in lines.parts] if self._metadata else []
        extra = metadata_columns(self._metadata, lines.rows, tps)
        while True:
            known = self._schema.current
            conversion = convert(lines.rows, known, self._rules, extra)
            if conversion.schema == known:
                return conversion
            wanted = conversion.schema
            agreed = patiently(lambda: self._schema.extend(wanted)).columns  # noqa: B023 - called before the next turn
            if all(agreed.get(field.name) == field.type for field in conversion.table.schema):
                return conversion
            # Another member has given one of the columns another type meanwhile.

    def _rejected(self, batch: Batch, lines: _Lines, reasons: Mapping[int, str]) -> Iterable[Rejected]:
        for index, reason in reasons.items():
            row, tp = lines.rows[index], batch.parts[lines.parts[index]].offsets.tp
            rejected = Rejected(tp, row.offset, known_timestamp(row.timestamp), row.key, row.value, row.headers, reason)
            if self._bad_records.keep(rejected, _HINT):
                yield rejected

    def _tell(self, rescued: Mapping[str, Rescue]) -> None:
        for column, rescue in rescued.items():
            if column not in self._told:
                self._told.add(column)
                logger.warning(
                    "column %r: %s; such values are kept in _rescued_data. COLUMN_TYPES can fix a column's type",
                    column,
                    rescue.example,
                )


def _by_part(batch: Batch, rejected: Sequence[Rejected]) -> tuple[tuple[BatchPart, list[Rejected]], ...]:
    of_parts = [(part, [record for record in rejected if record.tp == part.offsets.tp]) for part in batch.parts]
    return tuple((part, records) for part, records in of_parts if records)


def _write(table: pa.Table, path: Path) -> None:
    """Write for a reader that takes in a row group at once: in one, or several where the rows are large."""
    with pq.ParquetWriter(
        path, table.schema, compression="none", use_dictionary=False, write_statistics=False
    ) as writer:
        for group in _row_groups(table):
            writer.write_table(group, row_group_size=group.num_rows)


def _row_groups(table: pa.Table) -> Iterator[pa.Table]:
    if table.num_rows <= 1 or table.nbytes <= _MAX_ROW_GROUP_BYTES:
        yield table
    else:
        half = table.num_rows // 2
        yield from _row_groups(table.slice(0, half))
        yield from _row_groups(table.slice(half))


def _unused_name(taken: Sequence[str]) -> str:
    folded = {name.casefold() for name in taken}
    name = _GROUP_COLUMN
    while name in folded:
        name += "_"
    return name
