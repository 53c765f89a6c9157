"""Steps 1 and 2: a batch → one Arrow table by the table's schema → a Parquet file that Spark reads fast."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from app.convert.batch import BatchConverter, Converted, Patiently
from app.convert.partition_values import group_ids, values_of
from app.convert.values import Rescue
from app.errors import cut
from app.model import Batch, BatchPart, OutputFile, Rejected, StagedFile
from app.spark.parquet_options import without_dictionary
from app.spark.staged_file import write_staged
from app.table.layout import PartitionSpec

logger = logging.getLogger(__name__)

_MOST_NAMED = 1_000  # columns, since the start
_NAMED = 5  # columns, in one line
_SHOWN = 80  # characters of a name
_EXAMPLE = 300
_GROUP_COLUMN = "__file_group"
_T = TypeVar("_T")


class Timed(Protocol):
    """Does a step's work and notes how long it took; see ``app.pipeline.in_flight.BatchInFlight``."""

    def __call__(self, step: str, work: Callable[[], _T]) -> _T: ...


def _untimed(step: str, work: Callable[[], _T]) -> _T:  # noqa: ARG001 - as Timed
    return work()


@dataclass(frozen=True, slots=True)
class Staged:
    """What became of a batch.

    ``file`` is ``None`` when no row is left; ``rejected`` are the records for the dead letter, by the index of their
    part; ``rescued`` counts the values that fit no column.
    """

    file: StagedFile | None
    rejected: tuple[tuple[BatchPart, list[Rejected]], ...]
    rescued: int


class Stager:
    """Converts and stages batches; to be used by one thread.

    Args:
        converter: step 1.
        spec: how the table is partitioned.
        sort_column: orders the rows of a file, where they have it.
    """

    def __init__(self, converter: BatchConverter, spec: PartitionSpec, sort_column: str | None) -> None:
        self._converter = converter
        self._spec = spec
        self._sort_column = sort_column
        self._named: set[str] = set()

    def stage(self, batch: Batch, path: Path, patiently: Patiently, timed: Timed = _untimed) -> Staged:
        """Write the batch to ``path``, every row marked with the file it belongs to.

        Groups are integers rather than the partition columns themselves because Spark's dynamic partition write then
        sorts by one int: 1.5 times as fast as by four strings, and no value can upset it.

        Args:
            batch: what is to be written.
            path: of the new file.
            patiently: calls again what the store refuses for a while.
            timed: does the work of each of the two steps, and measures it.

        Raises:
            DataError: a row that cannot be written, where the user wants the process to end then.
        """
        converted = timed("convert", lambda: self._converter.convert(batch, patiently))
        return timed("stage", lambda: self._write(batch, converted, path))

    def _write(self, batch: Batch, converted: Converted, path: Path) -> Staged:
        rejected = _by_part(batch, converted.rejected)
        rows = converted.rows
        if rows is None:
            return Staged(None, rejected, 0)
        self._warn_of_rescued(converted.rescued)
        ids, groups = _output_files(rows.partition_values, rows.parts, batch.parts, self._spec)
        group_column = _unused_name(rows.table.column_names)
        with_groups = rows.table.append_column(group_column, ids)
        write_staged(with_groups, path, without_dictionary(rows.table, ids, groups))
        sort_column = self._sort_column if self._sort_column in rows.table.column_names else None
        rescued = sum(rescue.count for rescue in converted.rescued.values())
        return Staged(StagedFile(path, group_column, groups, sort_column), rejected, rescued)

    def _warn_of_rescued(self, rescued: Mapping[str, Rescue]) -> None:
        """Log each column once, in one line a batch: names come with the data, of any length and number."""
        if len(self._named) >= _MOST_NAMED:
            return
        news = {key: rescue for name, rescue in rescued.items() if (key := name[:_SHOWN]) not in self._named}
        if not news:
            return
        self._named.update(islice(news, _MOST_NAMED - len(self._named)))
        named = [f"column {cut(repr(key), _SHOWN)}: {cut(one.example, _EXAMPLE)}" for key, one in news.items()]
        more = f"; {len(news) - _NAMED:,} more columns" if len(news) > _NAMED else ""
        last = "" if len(self._named) < _MOST_NAMED else ". No further columns are named, batches count their values"
        logger.warning(
            "%s%s; such values are kept in _rescued_data. COLUMN_TYPES can fix a column's type%s",
            "; ".join(named[:_NAMED]),
            more,
            last,
        )


def _output_files(
    values: Sequence[pa.Array], parts: pa.Array, of: Sequence[BatchPart], spec: PartitionSpec
) -> tuple[pa.Array, tuple[OutputFile, ...]]:
    """Which rows make up which file: one file per Hive partition and topic-partition.

    Args:
        values: one array per partition column.
        parts: the part of every row.
        of: the parts.
        spec: names the columns.

    Returns:
        The number of every row's file (int32), and the files by their numbers.
    """
    ids = group_ids([*values, parts])
    counted = pa.table({"id": ids, "row": pa.arange(0, len(ids))})
    counted = counted.group_by("id").aggregate([("row", "min"), ("row", "count")]).sort_by("id")
    groups = [
        OutputFile(of[parts[first].as_py()], values_of(first, values, spec), count)
        for first, count in zip(counted["row_min"].to_pylist(), counted["row_count"].to_pylist(), strict=True)
    ]
    return ids, tuple(groups)


def _by_part(batch: Batch, rejected: Sequence[Rejected]) -> tuple[tuple[BatchPart, list[Rejected]], ...]:
    # In the order of the topic, whichever step refused them: who sends them again keeps the order of each key.
    in_order = sorted(rejected, key=lambda record: record.offset)
    of_parts = [(part, [record for record in in_order if record.tp == part.offsets.tp]) for part in batch.parts]
    return tuple((part, records) for part, records in of_parts if records)


def _unused_name(taken: Sequence[str]) -> str:
    folded = {name.casefold() for name in taken}
    name = _GROUP_COLUMN
    while name in folded:
        name += "_"
    return name
