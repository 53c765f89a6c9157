"""Steps 1 and 2: converts portions of a batch to Arrow tables, and writes them to one Parquet file for Spark.

Converted rows are appended to the staged file until the batch is closed. Therefore Python's memory contains only the
rows of one portion, and a batch may be larger than memory. The staged file needs room in the scratch folder.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.bad_records.dead_letter import write as write_dead_letter
from app.convert.batch import BatchConverter, Converted
from app.convert.chunks import Rows
from app.convert.kafka_columns import KAFKA_TIMESTAMP
from app.convert.partition_values import group_ids, nulls_of, values_of
from app.convert.values import Rescue
from app.convert.whole_batches import Patiently
from app.delivery.batch_limits import BatchSize
from app.errors import cut
from app.formatting import counted
from app.model import Batch, BatchPart, DataFile, LocalObject, OffsetRange, Rejected, StagedFile, TopicPartition
from app.spark.options import without_dictionary
from app.spark.staged_file import StagedWriter
from app.table.existing_table import Computed, likely_meant
from app.table.layout import KAFKA_PARTITIONS, TIME_COLUMNS, PartitionSpec, data_key, dead_letter_key, file_name, folder
from app.table.type_names import contains

logger = logging.getLogger(__name__)

_MOST_LOGGED = 1_000  # number of columns to log after the start
_MOST_IN_LINE = 5  # columns
_NAME_LENGTH = 80  # characters
_EXAMPLE_LENGTH = 300
_GROUP_COLUMN = "__file_group"


@dataclass(frozen=True, slots=True)
class Staged:
    """The result of step 2."""

    parts: tuple[BatchPart, ...]
    file: StagedFile | None  # ``None`` for a batch without rows
    dead_letters: list[LocalObject]  # one file for each topic partition
    rescued: int  # number of values that fit no column


@dataclass(slots=True)
class _Group:
    """The rows of one file. All rows of a file have the same partition values."""

    number: int
    partition_values: Mapping[str, str]
    tps: set[TopicPartition] = field(default_factory=set)
    rows: int = 0


class OpenBatch:
    """Gathers rows of one assignment, and writes the batch's files next to ``path``. Only one thread may use a batch.

    ``computed`` contains the partition columns whose values are not in the records.
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
        self._groups: dict[tuple[str, ...], _Group] = {}  # by partition values
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

    def fits(self, rows: Rows | None) -> bool:
        """Whether the rows fit into the staged file. Each column must have the same type as in the file."""
        if rows is None or self._writer is None:
            return True
        schema = self._writer.schema
        if _is_taken(self._group_column, rows.table.column_names):
            return False
        return all(new.name not in schema.names or schema.field(new.name).type == new.type for new in rows.table.schema)

    def append(self, portion: Batch, converted: Converted) -> None:
        """Append a portion whose rows fit. The portion's offsets follow the offsets in the batch."""
        for part in portion.parts:
            numbered = replace(part, number=self._number)
            self._parts[part.offsets.tp] = _merge_parts(self._parts.get(part.offsets.tp), numbered)
        for record in converted.rejected:
            self._rejected.setdefault(record.tp, []).append(record)
            self._rejected_bytes += record.nbytes
        if converted.rows is not None:
            self._rescued += sum(rescue.count for rescue in converted.rescued.values())
            self._append(converted.rows, [part.offsets.tp for part in portion.parts])

    def close(self) -> Staged:
        """Finish the staged file, and write the dead letters."""
        dead_letters = []
        for index, (tp, records) in enumerate(self._rejected.items()):
            records.sort(key=lambda record: record.offset)  # so that a replay keeps the order of each key
            path = self._path.with_name(f"dead-letter-{index}.parquet")
            write_dead_letter(records, path)
            dead_letters.append(LocalObject(path, dead_letter_key(self._table_root, self._parts[tp]), len(records)))
        return Staged(self._sorted_parts(self._parts), self._close_file(), dead_letters, self._rescued)

    def _close_file(self) -> StagedFile | None:
        if self._writer is None:
            return None
        schema, sort_column = self._writer.schema, self._spec.sort_column
        if sort_column not in schema.names or contains(schema.field(sort_column).type, pa.types.is_map):
            sort_column = None  # Spark cannot compare maps
        has_shared = any(len(group.tps) > 1 for group in self._groups.values())
        offsets = tuple(part.offsets for part in self._sorted_parts(self._parts)) if has_shared else ()
        groups = tuple(map(self._data_file, self._groups.values()))
        return self._writer.finish(self._group_column, groups, sort_column, offsets)

    def _data_file(self, group: _Group) -> DataFile:
        name = file_name(self._sorted_parts(group.tps))
        values = group.partition_values
        folders = {**values, **{each.name: each.folder(values[each.name]) for each in self._computed}}
        return DataFile(data_key(self._table_root, folders, name), values, group.rows)

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
        """Return the number of the file to which each row belongs (int32)."""
        ids = group_ids([*folders.values()]) if folders else pa.repeat(pa.scalar(0, pa.int32()), len(parts))
        counts = pa.table({"id": ids, "part": parts, "row": pa.arange(0, len(ids))})
        counts = counts.group_by(["id", "part"]).aggregate([("row", "min"), ("row", "count")])
        groups: dict[int, _Group] = {}
        for count in counts.sort_by("row_min").to_pylist():
            if count["id"] not in groups:
                values = values_of(count["row_min"], folders)
                new = _Group(len(self._groups), values)
                groups[count["id"]] = self._groups.setdefault(tuple(values.values()), new)
            group = groups[count["id"]]
            group.rows += count["row_count"]
            group.tps.add(tps[count["part"]])
        if all(group.number == number for number, group in groups.items()):
            return ids
        return pa.array([groups[number].number for number in range(len(groups))], pa.int32()).take(ids)


def with_folders(
    rows: Rows, spec: PartitionSpec, computed: Sequence[Computed]
) -> tuple[pa.Table, Mapping[str, pa.Array]]:
    """Return the table with the columns of the file, and the texts of each partition column."""
    folders = dict(zip(spec.columns, rows.partition_values, strict=True))
    table = rows.table
    for name, values in folders.items() if spec.keeps_columns else ():
        table = table.append_column(name, nulls_of(values, spec))
    return table, folders | {each.name: each.texts(table) for each in computed}


def _merge_parts(before: BatchPart | None, part: BatchPart) -> BatchPart:
    if before is None:
        return part
    first, last = min(before.offsets.first, part.offsets.first), max(before.offsets.last, part.offsets.last)
    return replace(part, offsets=OffsetRange(part.offsets.tp, first, last))


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with all columns of the schema, in the order of the schema."""
    if table.column_names == schema.names:
        return table
    columns = [table[f.name] if f.name in table.column_names else pa.nulls(len(table), f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _with_columns(writer: StagedWriter, new: Sequence[pa.Field]) -> StagedWriter:
    """Write the staged file again with more columns. In the existing rows, the new columns are null."""
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


class Stager:
    """Converts batches, and opens their staged files. Only one thread may use an instance.

    ``computed`` returns the partition columns whose values are not in the records.
    """

    def __init__(
        self,
        converter: BatchConverter,
        table_root: str,
        spec: PartitionSpec,
        computed: Callable[[], Sequence[Computed]] = tuple,
    ) -> None:
        self._converter = converter
        self._table_root = table_root
        self._table = table_root.rpartition("/")[2]
        self._spec = spec
        self._computed = computed
        self._logged: set[str] = set()  # columns with rescued values that were logged
        self._has_rows = False

    def open(self, number: int, path: Path) -> OpenBatch:
        """Begin the batch with this number. ``path`` is the path of the batch's staged file.

        Staged rows contain the number of their file instead of the partition columns. Spark's dynamic partition write
        then sorts by one integer, which works with every value, and is 1.5 times as fast as a sort by four strings.
        """
        return OpenBatch(number, path, self._table_root, self._spec, self._computed())

    def convert(self, batch: Batch, patiently: Patiently) -> Converted:
        """Do step 1 for a portion of a batch. ``BatchConverter.convert`` describes the arguments and errors."""
        converted = self._converter.convert(batch, patiently)
        self._warn_of_rescued(converted.rescued)
        if converted.rows and not self._has_rows:
            self._has_rows = True
            self._warn_of_missing(converted.rows, converted.rescued)
        return converted

    def _warn_of_missing(self, rows: Rows, rescued: Mapping[str, Rescue]) -> None:
        """Log each column of the settings that is missing in the first rows. The setting is probably misspelled."""
        null, timestamp = self._spec.null_value, self._spec.timestamp_column
        sources = {each.name: each.source for each in self._computed()}
        missing = {
            sources.get(column, column): (
                "HIVE_COLUMNS",
                f"go to {folder({column: null})}. Rows cannot change their folder later",
            )
            for column, values in with_folders(rows, self._spec, self._computed())[1].items()
            if pc.all(pc.equal(values, null)).as_py()
        }
        unmet = self._converter.field_rules.unmet()
        inside = {name for column in self._spec.columns if "." in (name := self._spec.sources.get(column, ""))}
        missing |= {name: (setting, "are written unchanged") for name, setting in unmet.items() if name not in inside}
        if not rows.has_timestamps and timestamp != KAFKA_TIMESTAMP:
            outcome = f"contain the Kafka timestamp there. Set {KAFKA_TIMESTAMP} if that is meant"
            missing[timestamp] = "TIMESTAMP_COLUMN", outcome
        names = (*TIME_COLUMNS, *KAFKA_PARTITIONS, *rows.table.column_names, *rescued)
        for column, (setting, outcome) in missing.items():
            first = f"the first {counted(len(rows.parts), 'row')} of {self._table}"
            cause = f"none of {first} has a value in {column}, so they {outcome}"
            logger.warning("%s: %s. %s", setting, cause, likely_meant(column, names, setting) or "Check the name")

    def _warn_of_rescued(self, rescued: Mapping[str, Rescue]) -> None:
        """Log each column with rescued values once. A batch logs one line, because names may be many and long."""
        if len(self._logged) >= _MOST_LOGGED:
            return
        new = {key: rescue for name, rescue in rescued.items() if (key := name[:_NAME_LENGTH]) not in self._logged}
        if not new:
            return
        self._logged.update(islice(new, _MOST_LOGGED - len(self._logged)))
        columns = [f"column {cut(repr(key), _NAME_LENGTH)}: {cut(new[key].example, _EXAMPLE_LENGTH)}" for key in new]
        more = f"; {len(new) - _MOST_IN_LINE:,} more columns" if len(new) > _MOST_IN_LINE else ""
        is_last = len(self._logged) >= _MOST_LOGGED
        logger.warning(
            "table %s: %s%s; these values are kept in _rescued_data. COLUMN_TYPES can fix a column's type%s",
            self._table,
            "; ".join(columns[:_MOST_IN_LINE]),
            more,
            ". No further columns are logged; batches still count their values" if is_last else "",
        )
