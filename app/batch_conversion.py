"""A batch's records → one table of rows, in the types that all members have agreed on, and their partition values.

Messages are converted many at once (``app.whole_batches``). Where that is refused, the stretch is halved until those
few are left that have to be looked at one by one, as all rows are that come from a ``transform()``.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from app.bad_records import BadRecords
from app.bad_rows import BadRowsError
from app.file_groups import refuse_too_long
from app.metadata import metadata_columns
from app.model import Batch, Message, Rejected, Row, known_timestamp
from app.partitioning import PartitionSpec, partition_columns
from app.records import Conversion, Rules, convert
from app.rejections import MessageReader, Refusal
from app.rescue import Rescue
from app.schema import TableSchema
from app.whole_batches import OneByOneError, WholeBatches

logger = logging.getLogger(__name__)

_HINT = "Correct it in app/transform.py or at its producer"
_STRETCH_BYTES = 8 * 2**20  # of messages that are parsed at once, and copied for it
_FEW = 256
_TRIES = 3  # how often a message may be parsed with others before it is looked at by itself

Patiently = Callable[[Callable[[], TableSchema]], TableSchema]


class Schema(Protocol):
    """The table's schema as all members share it; ``app.schema_keeper.SchemaKeeper`` in production."""

    @property
    def current(self) -> TableSchema: ...
    def extend(self, wanted: TableSchema) -> TableSchema: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Converted rows: their columns, one array per partition column, and the part that each row belongs to (int32)."""

    table: pa.Table
    partition_values: Sequence[pa.Array]
    parts: pa.Array


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of a batch; ``rows`` is ``None`` when none is left, ``rescued`` has the values that fit no column."""

    rows: Rows | None
    rejected: Sequence[Rejected]
    rescued: Mapping[str, Rescue]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Rows with the part that each belongs to, and its place in the batch."""

    rows: Sequence[Row]
    parts: Sequence[int]
    places: Sequence[int]

    def without(self, bad: Mapping[int, str]) -> "_Lines":
        kept = [index for index in range(len(self.rows)) if index not in bad]
        return _Lines(
            [self.rows[index] for index in kept],
            [self.parts[index] for index in kept],
            [self.places[index] for index in kept],
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Messages ``start`` to ``stop`` (excluded) of a part; the first has the place ``start + offset``."""

    part: int
    start: int
    stop: int
    offset: int

    def halves(self) -> "tuple[_Stretch, _Stretch]":
        middle = (self.start + self.stop) // 2
        return _Stretch(self.part, self.start, middle, self.offset), _Stretch(self.part, middle, self.stop, self.offset)

    def __len__(self) -> int:
        return self.stop - self.start

    def of(self, batch: Batch) -> Sequence[Message]:
        return batch.messages[self.part][self.start : self.stop]


_Piece = tuple[Rows, pa.Array]  # with the place of each row


class BatchConverter:
    """Converts batches; to be used by one thread.

    Args:
        spec, table_root: how and where the table is laid out.
        schema: the types of its columns.
        rules: how the table's settings bear on them.
        metadata: names of ``METADATA_COLUMNS``.
        bad_records: what becomes of rows that cannot be written.
        whole_batches, reader: convert messages, many at once and one by one; batches of rows need neither.
    """

    def __init__(
        self,
        *,
        spec: PartitionSpec,
        table_root: str,
        schema: Schema,
        rules: Rules,
        metadata: Sequence[str],
        bad_records: BadRecords,
        whole_batches: WholeBatches | None = None,
        reader: MessageReader | None = None,
    ) -> None:
        self._spec = spec
        self._table_root = table_root
        self._schema = schema
        self._rules = rules
        self._metadata = metadata
        self._bad_records = bad_records
        self._whole_batches = whole_batches
        self._reader = reader

    def convert(self, batch: Batch, patiently: Patiently) -> Converted:
        """Convert a batch.

        Args:
            batch: rows, messages, and records that were rejected already.
            patiently: calls again what the store refuses for a while.

        Raises:
            DataError: a row that cannot be written, where the user wants the process to end then.
        """
        stretches = list(_stretches(batch))
        pieces, left = self._convert_whole(batch, stretches, patiently)
        lines, refused = self._read(batch, left)
        piece, bad, rescued = self._convert_lines(batch, lines, patiently)
        if any(not self._is_current(rows.table) for rows, _ in pieces):
            # A column has got another type since: all of its values have to be looked at.
            pieces = []
            lines, refused = self._read(batch, stretches)
            piece, bad, rescued = self._convert_lines(batch, lines, patiently)
        kept = [each.rejected for each in (*refused, *bad) if self._bad_records.keep(each.rejected, each.hint)]
        rows = self._in_order([*pieces, piece] if piece else pieces)
        return Converted(rows, [*batch.rejected, *kept], rescued)

    # --- many at once -----------------------------------------------------------------------------------------------

    def _convert_whole(
        self, batch: Batch, stretches: Sequence[_Stretch], patiently: Patiently
    ) -> tuple[list[_Piece], list[_Stretch]]:
        """What can be converted at once, and what is left."""
        if self._whole_batches is None:
            return [], list(stretches)
        pieces: list[_Piece] = []
        left: list[_Stretch] = []
        for stretch in stretches:
            todo = [stretch]
            budget = _TRIES * len(stretch)
            scouted = False
            while todo:
                one = todo.pop()
                budget -= len(one)
                piece = self._piece(batch, one, self._whole_batches)
                if piece is None and not scouted:
                    scouted = True
                    if self._scout(batch, one, patiently):
                        piece = self._piece(batch, one, self._whole_batches)
                if piece is not None:
                    pieces.append(piece)
                elif len(one) <= _FEW or budget < 0:
                    left.append(one)
                else:
                    todo += reversed(one.halves())
        return pieces, left

    def _piece(self, batch: Batch, stretch: _Stretch, whole_batches: WholeBatches) -> _Piece | None:
        messages = stretch.of(batch)
        try:
            columns = whole_batches.convert(messages, batch.parts[stretch.part].offsets.tp, self._schema.current)
            refuse_too_long(columns.partition_values, batch.parts, self._spec, self._table_root)
        except (OneByOneError, BadRowsError):
            return None
        parts = pa.repeat(pa.scalar(stretch.part, pa.int32()), len(messages))
        places = pa.arange(stretch.start + stretch.offset, stretch.stop + stretch.offset)
        return Rows(columns.table, columns.partition_values, parts), places

    def _scout(self, batch: Batch, stretch: _Stretch, patiently: Patiently) -> bool:
        """Look at the first few: whether the schema, or what is known of partition columns, has grown by them."""
        known = self._schema.current
        few = _Stretch(stretch.part, stretch.start, min(stretch.stop, stretch.start + _FEW), stretch.offset)
        lines, _ = self._read(batch, [few])
        self._convert_lines(batch, lines, patiently)
        return self._learn(lines.rows) or self._schema.current != known

    def _learn(self, rows: Sequence[Row]) -> bool:
        return self._whole_batches is not None and self._whole_batches.learn(rows)

    def _is_current(self, table: pa.Table) -> bool:
        columns = self._schema.current.columns
        return all(columns.get(field.name) == field.type for field in table.schema)

    # --- one by one -------------------------------------------------------------------------------------------------

    def _read(self, batch: Batch, stretches: Sequence[_Stretch]) -> tuple[_Lines, list[Refusal]]:
        """The batch's rows, and those of its messages in these stretches."""
        rows = list(chain.from_iterable(batch.rows))
        parts = list(chain.from_iterable(repeat(index, len(each)) for index, each in enumerate(batch.rows)))
        places = list(range(len(rows)))
        refused: list[Refusal] = []
        for stretch in stretches:
            for place, message in enumerate(stretch.of(batch), stretch.start + stretch.offset):
                read = self._reader.read(message) if self._reader else None
                if isinstance(read, Row):
                    rows.append(read)
                    parts.append(stretch.part)
                    places.append(place)
                elif read is not None:
                    refused.append(read)
        return _Lines(rows, parts, places), refused

    def _convert_lines(
        self, batch: Batch, lines: _Lines, patiently: Patiently
    ) -> tuple[_Piece | None, list[Refusal], Mapping[str, Rescue]]:
        refused: list[Refusal] = []
        while lines.rows:
            try:
                values = partition_columns(lines.rows, self._spec)
                refuse_too_long(values, batch.parts, self._spec, self._table_root)
                conversion = self._conversion(batch, lines, patiently)
            except BadRowsError as error:
                refused += self._refusals(batch, lines, error.reasons)
                lines = lines.without(error.reasons)
            else:
                rows = Rows(conversion.table, values, pa.array(lines.parts, pa.int32()))
                return (rows, pa.array(lines.places, pa.int64())), refused, conversion.rescued
        return None, refused, {}

    def _conversion(self, batch: Batch, lines: _Lines, patiently: Patiently) -> Conversion:
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

    def _refusals(self, batch: Batch, lines: _Lines, reasons: Mapping[int, str]) -> Iterator[Refusal]:
        for index, reason in reasons.items():
            row, tp = lines.rows[index], batch.parts[lines.parts[index]].offsets.tp
            timestamp = known_timestamp(row.timestamp)
            yield Refusal(Rejected(tp, row.offset, timestamp, row.key, row.value, row.headers, reason), _HINT)

    # --- together ---------------------------------------------------------------------------------------------------

    def _in_order(self, pieces: Sequence[_Piece]) -> Rows | None:
        """All rows in the order of the batch, and columns in the order of the schema."""
        if not pieces:
            return None
        if len(pieces) == 1:
            return pieces[0][0]
        rows, places = zip(*pieces, strict=True)
        table = pa.concat_tables([each.table for each in rows], promote_options="default")
        table = table.select([name for name in self._schema.current.columns if name in table.column_names])
        values = [pa.concat_arrays(arrays) for arrays in zip(*(each.partition_values for each in rows), strict=True)]
        parts = pa.concat_arrays([each.parts for each in rows])
        order = pa.concat_arrays(places)
        if pc.all(pc.less(order[:-1], order[1:])).as_py():
            return Rows(table, values, parts)
        by_place = pc.sort_indices(order)
        return Rows(table.take(by_place), [array.take(by_place) for array in values], parts.take(by_place))


def _stretches(batch: Batch) -> Iterator[_Stretch]:
    offset = sum(map(len, batch.rows))
    for part, messages in enumerate(batch.messages):
        if messages:
            step = max(_FEW, _STRETCH_BYTES * len(messages) // max(1, sum(map(len, messages))))
            for start in range(0, len(messages), step):
                yield _Stretch(part, start, min(start + step, len(messages)), offset)
        offset += len(messages)
