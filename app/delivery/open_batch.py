"""The batch that is being gathered: converted rows are appended to its staged file until the batch is closed.

So Python holds the rows of a portion only, and a batch may be larger than memory. It takes room in the scratch folder.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.bad_records.dead_letter import write as write_dead_letter
from app.convert.batch import Converted
from app.convert.chunks import Rows
from app.convert.partition_values import group_ids, nulls_of, values_of
from app.delivery.batch_limits import BatchSize
from app.model import Batch, BatchPart, DataFile, LocalObject, OffsetRange, Rejected, StagedFile, TopicPartition
from app.spark.options import without_dictionary
from app.spark.staged_file import StagedWriter
from app.table.existing import Computed
from app.table.layout import PartitionSpec, data_key, dead_letter_key, file_name

_GROUP_COLUMN = "__file_group"


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch that was staged."""

    parts: tuple[BatchPart, ...]
    file: StagedFile | None  # ``None`` when no row is left
    rejected: tuple[Rejected, ...]  # the records in ``dead_letters``
    dead_letters: list[LocalObject]  # one file for each topic-partition
    rescued: int  # values that fit no column


@dataclass(slots=True)
class _Group:
    """The rows of one file: those of one Hive partition."""

    number: int
    partition_values: Mapping[str, str]
    tps: set[TopicPartition] = field(default_factory=set)
    rows: int = 0


class OpenBatch:
    """Gathers rows of the partitions of one assignment, and writes its files beside ``path``; for one thread.

    ``computed`` are the folder columns that are in no record.
    """

    def __init__(
        self, number: int, path: Path, table_root: str, spec: PartitionSpec, computed: Sequence[Computed] = ()
    ) -> None:
        self._number = number
        self._path = path
        self._table_root = table_root
        self._spec = spec
        self._computed = computed
        self._writer: StagedWriter | None = None
        self._group_column = _GROUP_COLUMN
        self._groups: dict[tuple[str, ...], _Group] = {}  # by their values
        self._parts: dict[TopicPartition, BatchPart] = {}
        self._rejected: dict[TopicPartition, list[Rejected]] = {}
        self._rescued = 0
        self._rejected_bytes = 0

    @property
    def size(self) -> BatchSize:
        writer = self._writer
        return BatchSize(
            staged_bytes=writer.nbytes if writer else 0,
            sort_bytes=writer.sort_bytes if writer else 0,
            rejected_bytes=self._rejected_bytes,
            files=len(self._groups),
            records=(writer.rows if writer else 0) + sum(map(len, self._rejected.values())),
        )

    def takes(self, rows: Rows | None) -> bool:
        """Whether the rows fit into the file: their columns have the types of those that are in it."""
        if rows is None or self._writer is None:
            return True
        schema = self._writer.schema
        if _is_taken(self._group_column, rows.table.column_names):
            return False
        return all(new.name not in schema.names or schema.field(new.name).type == new.type for new in rows.table.schema)

    def append(self, portion: Batch, converted: Converted) -> None:
        """Append a portion whose rows ``takes`` has accepted; its offsets follow those in the batch."""
        for part in portion.parts:
            numbered = replace(part, number=self._number)
            self._parts[part.offsets.tp] = _joined(self._parts.get(part.offsets.tp), numbered)
        for record in converted.rejected:
            self._rejected.setdefault(record.tp, []).append(record)
            self._rejected_bytes += record.nbytes
        if converted.rows is not None:
            self._rescued += sum(rescue.count for rescue in converted.rescued.values())
            self._append(converted.rows, [part.offsets.tp for part in portion.parts])

    def close(self) -> Staged:
        """Finish the staged file, and write the dead letters."""
        rejected: list[Rejected] = []
        dead_letters = []
        for index, (tp, records) in enumerate(self._rejected.items()):
            records.sort(key=lambda record: record.offset)  # a replay then keeps the order of each key
            path = self._path.with_name(f"dead-letter-{index}.parquet")
            write_dead_letter(records, path)
            dead_letters.append(LocalObject(path, dead_letter_key(self._table_root, self._parts[tp]), len(records)))
            rejected += records
        return Staged(self._sorted_parts(self._parts), self._close_file(), tuple(rejected), dead_letters, self._rescued)

    def _close_file(self) -> StagedFile | None:
        if self._writer is None:
            return None
        sort_column = self._spec.sort_column if self._spec.sort_column in self._writer.schema.names else None
        has_shared = any(len(group.tps) > 1 for group in self._groups.values())
        offsets = tuple(part.offsets for part in self._sorted_parts(self._parts)) if has_shared else ()
        groups = tuple(map(self._data_file, self._groups.values()))
        return self._writer.finish(self._group_column, groups, sort_column, offsets)

    def _data_file(self, group: _Group) -> DataFile:
        name = file_name(self._sorted_parts(group.tps))
        values = group.partition_values
        shown = {**values, **{each.name: each.folder(values[each.name]) for each in self._computed}}
        return DataFile(data_key(self._table_root, shown, name), values, group.rows)

    def _sorted_parts(self, tps: Iterable[TopicPartition]) -> tuple[BatchPart, ...]:
        return tuple(self._parts[tp] for tp in sorted(tps))

    def _append(self, rows: Rows, tps: Sequence[TopicPartition]) -> None:
        table, folders = with_folders(rows, self._spec, self._computed)
        ids = self._group(folders, rows.parts, tps)
        if self._writer is None:
            self._group_column = _unused_name(table.column_names)
        table = table.append_column(self._group_column, ids)
        if self._writer is None:
            self._writer = StagedWriter(self._path, table.schema, without_dictionary(rows.table, ids))
        elif new := [field for field in table.schema if field.name not in self._writer.schema.names]:
            self._writer = _with_columns(self._writer, new)
        self._writer.append(_in_schema(table, self._writer.schema))

    def _group(self, folders: Mapping[str, pa.Array], parts: pa.Array, tps: Sequence[TopicPartition]) -> pa.Array:
        """The number of every row's file (int32)."""
        ids = group_ids([*folders.values()]) if folders else pa.repeat(pa.scalar(0, pa.int32()), len(parts))
        counted = pa.table({"id": ids, "part": parts, "row": pa.arange(0, len(ids))})
        counted = counted.group_by(["id", "part"]).aggregate([("row", "min"), ("row", "count")])
        groups: dict[int, _Group] = {}
        for found in counted.sort_by("row_min").to_pylist():
            if found["id"] not in groups:
                its = values_of(found["row_min"], folders)
                new = _Group(len(self._groups), its)
                groups[found["id"]] = self._groups.setdefault(tuple(its.values()), new)
            group = groups[found["id"]]
            group.rows += found["row_count"]
            group.tps.add(tps[found["part"]])
        if all(group.number == each for each, group in groups.items()):
            return ids
        return pa.array([groups[each].number for each in range(len(groups))], pa.int32()).take(ids)


def with_folders(
    rows: Rows, spec: PartitionSpec, computed: Sequence[Computed]
) -> tuple[pa.Table, Mapping[str, pa.Array]]:
    """Returns the columns of the file, and the text of each folder column."""
    folders = dict(zip(spec.columns, rows.partition_values, strict=True))
    table = rows.table
    for name, values in folders.items() if spec.keeps_columns else ():
        table = table.append_column(name, nulls_of(values, spec))
    return table, folders | {each.name: each.texts(table) for each in computed}


def _joined(before: BatchPart | None, part: BatchPart) -> BatchPart:
    if before is None:
        return part
    first, last = min(before.offsets.first, part.offsets.first), max(before.offsets.last, part.offsets.last)
    return replace(part, offsets=OffsetRange(part.offsets.tp, first, last))


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with all columns of the schema, in its order."""
    if table.column_names == schema.names:
        return table
    columns = [table[f.name] if f.name in table.column_names else pa.nulls(len(table), f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _with_columns(writer: StagedWriter, new: Sequence[pa.Field]) -> StagedWriter:
    """The staged file with more columns, which its rows so far do not have."""
    writer.close()
    former = writer.path.rename(writer.path.with_suffix(".former"))
    fields = [*writer.schema, *new]
    wider = StagedWriter(writer.path, pa.schema(fields), writer.without_dictionary)
    with pq.ParquetFile(former) as file:
        for index in range(file.num_row_groups):
            wider.append(_in_schema(file.read_row_group(index), wider.schema))
    former.unlink()
    return wider


def _is_taken(name: str, columns: Sequence[str]) -> bool:
    return name in {column.casefold() for column in columns}


def _unused_name(taken: Sequence[str]) -> str:
    name = _GROUP_COLUMN
    while _is_taken(name, taken):
        name += "_"
    return name
