"""Merges files of an Iceberg table, and replaces the input files by the merged files in one commit.

Each try reads the newest snapshot, and checks that the input files are in the snapshot, without delete files. The
catalog accepts the commit only if no newer snapshot exists. If the answer is lost, the next try finds the merged files.

Rows keep the names, types and field ids of the input files, so a merge does not depend on the columns of the table.
The module does not use pyiceberg's reader, because this reader turns a null list of structures into an empty list.
"""

import random
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.transforms import IdentityTransform, TimeTransform
from pyiceberg.typedef import EMPTY_DICT, Record
from pyiceberg.types import TimestampType

from app.errors import ConfigError, FatalError, RetryableError
from app.model import DataFile
from app.parts.iceberg.entries import columns_of_table, entries, mapping_of, prepare
from app.parts.iceberg.store_io import StoreIO
from app.parts.iceberg.table import REFUSALS, IcebergTable, translated
from app.storage.base import ObjectStore
from app.table.layout import TIME_COLUMNS
from app.table.parquet_reader import schema_of
from app.table.type_names import parts

_SECONDS: Final = 600.0  # deadline for planning a large table, and for a try to commit
_MOST_TRIES: Final = 20
_LONGEST_PAUSE: Final = 5.0  # between two tries, in seconds
_MOST_BYTES: Final = 128 << 20  # maximum size of the rows in memory, which become a row group
_LEVEL: Final = 3  # compression level, equal to Spark's default
_ROWS_AT_ONCE: Final = 1_000  # rows to read at a time; more rows may not fit in memory
_COPIED: Final = frozenset(
    {
        *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.time64("us")),
        *(pa.timestamp("us"), pa.timestamp("us", "UTC")),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
    }
)
_T = TypeVar("_T")

Footer = tuple[str, Mapping[bytes, bytes] | None]  # a file's key, and the metadata in its footer


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the newest snapshot.

    Attributes:
        key: The file's object key in the store.
        group: The id of the partition spec, and the partition values. Only files of one group are merged.
        has_deletes: Whether a delete file deletes some of the rows.
        times: The time of the partition (year, month, day, hour). The flag: local time (text columns), not UTC.
    """

    key: str
    size: int
    rows: int
    group: tuple[int, Hashable]
    has_deletes: bool
    times: Sequence[tuple[bool, Mapping[str, str | None]]]
    task: FileScanTask = field(repr=False)


class Fitting(NamedTuple):
    """Files that can be merged into one file with these columns.

    ``kept`` contains, by object key, whether each row of a file remains. If a file has no entry, all its rows remain.
    """

    columns: pa.Schema
    files: list[LiveFile]
    kept: Mapping[str, pa.BooleanArray] = EMPTY_DICT


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged file, which contains the remaining rows of its input files; ``None`` if no row remains."""

    inputs: Sequence[LiveFile]
    file: DataFile | None

    @property
    def removed_rows(self) -> int:
        return sum(file.rows for file in self.inputs) - (self.file.rows if self.file else 0)


class Rewrite:
    """Rewrites files of one table. Only one thread may use this object.

    Args:
        sort_column: The column that orders the rows of each row group, if the files contain this column.
        row_group_rows: The maximum number of rows in a row group.
    """

    def __init__(self, table: IcebergTable, store: ObjectStore, sort_column: str | None, row_group_rows: int) -> None:
        self._table = table
        self._store = store
        self._sort_column = sort_column
        self._row_group_rows = row_group_rows

    def files(self, time_columns: Collection[str | None] = ()) -> list[LiveFile]:
        """Return the data files of the newest snapshot. ``time_columns`` are the columns with the times of rows."""

        def plan() -> list[LiveFile]:
            if (table := self._table.load()) is None:  # the first batch creates the table
                return []
            key, specs = cast(StoreIO, table.io).key, table.specs()
            timed = {each.field_id for each in mapping_of(table.metadata) if {*each.names} & {*time_columns}}
            return [
                LiveFile(
                    key=key(task.file.file_path),
                    size=task.file.file_size_in_bytes,
                    rows=task.file.record_count,
                    group=(task.file.spec_id, task.file.partition),
                    has_deletes=bool(task.delete_files),
                    times=[*_times(specs[task.file.spec_id], task.file.partition, timed)],
                    task=task,
                )
                for task in table.scan().plan_files()
            ]

        return self._ask("planning", plan)

    def referenced(self) -> set[str]:
        """Return the object keys of the data files and delete files of all snapshots."""

        def keys() -> set[str]:
            table = self._require_table()
            paths = table.inspect.all_files()["file_path"].to_pylist() if table.snapshots() else []
            return {*map(cast(StoreIO, table.io).key, paths)}

        return self._ask("reading the snapshots of", keys)

    def columns(self) -> dict[str, pa.DataType]:
        """Return the types of the table's columns."""
        return {field.name: field.type for field in self._ask("reading", self._require_table).schema().as_arrow()}

    def renamed(self) -> set[str]:
        """Return the columns whose name in a file may differ, or may be the name of another column there."""
        metadata = self._ask("reading", self._require_table).metadata
        named = [(name, each.field_id) for each in mapping_of(metadata) for name in each.names]
        named += ((field.name, field.field_id) for schema in metadata.schemas for field in schema.fields)
        present = ((field.name, field.field_id) for field in metadata.schema().fields)
        return {name for name, id_ in present for other, key in named if (other == name) != (key == id_)}

    def fitting(self, files: Iterable[tuple[LiveFile, pa.Schema]]) -> list[Fitting]:
        """Divide files of one partition into groups. The columns of a group fit into one file."""
        metadata = self._ask("reading", self._require_table).metadata
        fittings: list[Fitting] = []
        for file, schema in files:
            for index, (columns, members, _) in enumerate(fittings):
                if joined := _joined(metadata, file.group[0], columns, schema):
                    fittings[index] = Fitting(joined, [*members, file])
                    break
            else:
                if all(_is_copied(each.type) for each in schema):
                    fittings.append(Fitting(schema, [file]))
        return fittings

    def merge(
        self, fitting: Fitting, scratch: Path, describe: Callable[[Sequence[Footer]], dict[str, str]], token: str
    ) -> Merged:
        """Merge these files, and upload the merged file into the folder of the first. ``describe`` returns metadata.

        ``token`` makes the file's name unique.

        Raises:
            FatalError: The number of rows in the merged file is not the number of remaining rows in the inputs.
        """
        schema, inputs, kept = fitting
        footers: list[Footer] = []
        merged = scratch / "merged.parquet"
        form = {"store_schema": False, "store_decimal_as_integer": True}
        with pq.ParquetWriter(merged, schema, compression="zstd", compression_level=_LEVEL, **form) as writer:
            for rows in self._row_groups(fitting, scratch / "input.parquet", footers):
                writer.write_table(self._sort(rows), row_group_size=len(rows))
            writer.add_key_value_metadata(describe(footers))
        footer = pq.read_metadata(merged)
        input_rows = sum(kept[each.key].true_count if each.key in kept else each.rows for each in inputs)
        if footer.num_rows != input_rows:
            raise FatalError(
                f"merging {inputs[0].key} and other files",
                f"the merged file has {footer.num_rows:,} rows instead of {input_rows:,}",
                "Nothing was changed; find out who has changed the files",
            )
        if not input_rows:
            return Merged(inputs, None)
        name = f"data_merged_{token}.parquet"
        uri = f"{inputs[0].task.file.file_path.rpartition('/')[0]}/{name}"
        key = f"{inputs[0].key.rpartition('/')[0]}/{name}"
        stored = self._store.upload(merged, key)
        return Merged(inputs, DataFile(key, {}, footer.num_rows, stored.size, footer=footer, uri=uri))

    def commit(self, merged: Sequence[Merged], erased: Iterable[LiveFile] = ()) -> Sequence[Merged]:
        """Replace the inputs by the merged files, and remove the ``erased`` files. All files have one partition spec.

        Returns:
            The merged files that are now in the table. Merges whose inputs have changed meanwhile are skipped.
        """
        commit = partial(self._ask, "committing to", lambda: self._replace(merged, erased))
        for tries in range(_MOST_TRIES - 1):
            with suppress(RetryableError):
                return commit()
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.1 * 2**tries)))  # noqa: S311
        return commit()

    def _ask(self, what: str, work: Callable[[], _T]) -> _T:
        return self._table.ask(f"{what} {self._table.words}", work, _SECONDS)

    def _require_table(self) -> Table:
        table = self._table.load()
        if table is None:
            raise ConfigError(f"looking for {self._table.words}", "it is not in the catalog", "Check TABLE_NAME")
        return table

    def _row_groups(self, fitting: Fitting, path: Path, footers: list[Footer]) -> Iterator[pa.Table]:
        schema, inputs, kept = fitting
        tables, rows, size = [schema.empty_table()], 0, 0
        for input_file in inputs:
            self._store.download(input_file.key, path)
            with pq.ParquetFile(path) as file:
                footers.append((input_file.key, file.metadata.metadata))
                read = 0
                for batch in file.iter_batches(_ROWS_AT_ONCE):
                    if (is_kept := kept.get(input_file.key)) is not None:
                        read, batch = read + len(batch), batch.filter(is_kept[read : read + len(batch)])  # noqa: PLW2901
                    tables.append(pa.table(batch).replace_schema_metadata())
                    rows, size = rows + len(batch), size + batch.nbytes
                    if rows >= self._row_group_rows or size >= _MOST_BYTES:
                        yield pa.concat_tables(tables, promote_options="default")
                        tables, rows, size = tables[:1], 0, 0
        if rows:
            yield pa.concat_tables(tables, promote_options="default")

    def _sort(self, rows: pa.Table) -> pa.Table:
        if self._sort_column not in rows.column_names or pa.types.is_nested(rows[self._sort_column].type):
            return rows
        return rows.sort_by(self._sort_column)

    def _replace(self, merged: Sequence[Merged], erased: Iterable[LiveFile]) -> Sequence[Merged]:
        table = self._require_table()
        live = {task.file.file_path: task for task in table.scan().plan_files()}
        if committed := [each for each in merged if each.file and each.file.uri in live]:
            return committed  # an earlier try succeeded, and the answer was lost

        def is_unchanged(file: LiveFile) -> bool:
            task = live.get(file.task.file.file_path)
            return task is not None and not task.delete_files

        valid = [merge for merge in merged if all(map(is_unchanged, merge.inputs))]
        removed = [file for file in erased if file.task.file.file_path in live]
        removed += (file for merge in valid for file in merge.inputs)
        if not removed:
            return []
        prepare(table, removed[0].group[0])
        has_equal_rows = valid and not any(each.removed_rows for each in valid)
        kind = partial(
            _Replace if has_equal_rows else _OverwriteFiles, Operation.OVERWRITE if valid else Operation.DELETE
        )
        try:
            with table.transaction() as transaction:
                metadata = transaction.table_metadata
                new = ((each.file, each.inputs[0].task.file.partition) for each in valid if each.file)
                added = ((file, schema_of(file), partition) for file, partition in new)
                with kind(transaction, table.io) as producer:
                    for entry in entries(metadata, added):
                        producer.append_data_file(entry)
                    for file in removed:
                        producer.delete_data_file(file.task.file)
        except REFUSALS as error:
            doing = f"committing to {self._table.words}"
            raise RetryableError(doing, translated(doing, error).cause) from None
        return valid


class _Replace(_OverwriteFiles):
    """Creates a snapshot with the operation ``replace``, which incremental readers skip. pyiceberg cannot do this."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


def _times(
    spec: PartitionSpec, values: Record, timed: Collection[int | None]
) -> Iterator[tuple[bool, dict[str, str | None]]]:
    texts: dict[str, str | None] = {}
    for position, partition in enumerate(spec.fields):
        if isinstance(partition.transform, TimeTransform) and partition.source_id in timed:
            shown = ""
            with suppress(OverflowError, ValueError):  # a time after the year 9999
                shown = partition.transform.to_human_string(TimestampType(), values[position])
            yield False, dict(zip(TIME_COLUMNS, shown.split("-"), strict=False))
        elif isinstance(partition.transform, IdentityTransform):
            texts[partition.name] = str(values[position])
    if TIME_COLUMNS[0] in texts:
        yield True, texts


def _joined(metadata: TableMetadata, spec_id: int, first: pa.Schema, other: pa.Schema) -> pa.Schema | None:
    """Return the columns of the file into which two files can be merged, or ``None`` if they cannot be merged.

    A column that only one file contains becomes null in the other rows. Columns of partitions must be in all files.
    """
    if first.equals(other, check_metadata=True):
        return first
    joined = pa.unify_schemas([first, other]) if _is_alike(first, other) else None
    if joined is None or not all(_is_copied(each.type) for each in joined):
        return None
    missing = [name for name in joined.names if name not in first.names or name not in other.names]
    sources = {field.source_id for field in metadata.specs()[spec_id].fields}
    ids = {name: each.field_id for each in mapping_of(metadata) for name in each.names}
    if any(ids.get(name) in sources or not joined.field(name).nullable for name in missing):
        return None
    try:
        columns_of_table(metadata, joined)
    except ValueError:  # the files contain two names of one column
        return None
    return joined


def _is_alike(first: pa.Schema, other: pa.Schema) -> bool:
    """Return whether the schemas have no field ids, and columns with the same name have the same type."""
    have_ids = any(b"PARQUET:field_id" in (field.metadata or {}) for field in (*first, *other))
    shared = (name for name in first.names if name in other.names)
    return not have_ids and all(first.field(name) == other.field(name) for name in shared)


def _is_copied(kind: pa.DataType) -> bool:
    """Return whether Iceberg supports this type, and pyarrow reads and writes values of this type unchanged."""
    if pa.types.is_nested(kind):
        return all(map(_is_copied, parts(kind)))
    return kind in _COPIED or pa.types.is_decimal128(kind) or pa.types.is_fixed_size_binary(kind)
