"""Converts a batch into one Arrow table and partition values, in the column types that all members share.

``whole_batches`` converts many messages at a time. Messages that ``whole_batches`` refuses are converted one by one.
All rows from ``transform()`` are also converted one by one. The result does not depend on the way of conversion. The
first value of a new column decides the column's type.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple, Protocol

import pyarrow as pa

from app.bad_records.refusals import BadRecords, BadRowsError, ReadMessage, Refusal, not_written
from app.convert.chunks import Chunk, Rows, chunks, join_rows
from app.convert.columns import Columns
from app.convert.kafka_columns import lost_metadata, metadata_columns, metadata_of
from app.convert.partition_values import moments_of, partition_columns, refuse_too_long
from app.convert.rows import Conversion, Rules, convert
from app.convert.values import Rescue
from app.convert.whole_batches import OneByOneError, Patiently, WholeBatches
from app.model import KEY_COLUMN, Batch, Rejected, Row, TopicPartition
from app.reason_texts import Reason
from app.table.field_rules import FieldRules
from app.table.layout import PartitionSpec
from app.table.schema import TableSchema

_HINT = "Correct it in app/transform.py or at its producer"
_RENAME_HINT = "Choose another column in RENAME_COLUMNS, or drop the field of that name by DROP_COLUMNS"


class Schema(Protocol):
    """The table's schema. ``app.table.schema_store.SchemaStore`` implements this protocol."""

    @property
    def current(self) -> TableSchema: ...
    def extend(self, schema: TableSchema) -> TableSchema: ...


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted batch. ``rows`` is ``None`` if no row is accepted. ``rescued`` counts values that fit no column."""

    rows: Rows | None
    rejected: Sequence[Rejected]
    rescued: Mapping[str, Rescue]


class _Line(NamedTuple):
    """A row, the index of the batch part that contains the row, and the row's position in the batch."""

    row: Row
    part: int
    place: int


@dataclass(slots=True)
class _Work:
    """A batch and the results so far: converted rows of each chunk, and refused records with their positions."""

    batch: Batch
    patiently: Patiently
    most_scalars: int
    converted: list[Rows] = field(default_factory=list)
    refused: list[tuple[int, Refusal]] = field(default_factory=list)
    rescued: dict[str, Rescue] = field(default_factory=dict)

    def add(self, rows: Rows, rescued: Mapping[str, Rescue]) -> None:
        self.converted.append(rows)
        for name, more in rescued.items():
            so_far = self.rescued.get(name)
            self.rescued[name] = Rescue(so_far.count + more.count, so_far.example) if so_far else more


@dataclass(slots=True, kw_only=True)
class BatchConverter:
    """Converts batches. Only one thread may use an instance.

    ``whole_batches`` converts many messages at a time. ``read_message`` converts one message. Rows need no parser.
    """

    spec: PartitionSpec
    table_root: str
    schema: Schema
    rules: Rules
    metadata: Sequence[str]
    bad_records: BadRecords
    whole_batches: WholeBatches | None = None
    read_message: ReadMessage | None = None
    field_rules: FieldRules = field(default_factory=FieldRules)

    def __post_init__(self) -> None:
        self.metadata = metadata_of(self.spec, self.metadata)

    def convert(self, batch: Batch, patiently: Patiently) -> Converted:
        """Converts a batch. ``patiently`` repeats a call until the store or the schema registry answers.

        Raises:
            DataError: a row cannot be written, and ``ON_BAD_RECORD`` is ``fail``.
        """
        before = self.schema.current
        most = self.rules.most_scalars(before)
        work = _Work(batch, patiently, most)
        if self.whole_batches is None:
            self._convert_all_one_by_one(work, before)
        else:
            self.whole_batches.ask_with(patiently)
            self._convert_lines(work, _rows_of(batch), before)
            for chunk in chunks(batch):
                self._convert_chunk(work, chunk, self.whole_batches)
        rows = self._join(work)
        if rows is None and work.converted:  # a double column contains an integer with too many digits
            work = _Work(batch, patiently, most)
            self._convert_all_one_by_one(work, before)
            rows = self._join(work)
        refused = [refusal for _, refusal in sorted(work.refused, key=itemgetter(0))]
        kept = [refusal.rejected for refusal in refused if self.bad_records.keep(refusal.rejected, refusal.hint)]
        return Converted(rows, [*batch.rejected, *kept], work.rescued)

    def _convert_all_one_by_one(self, work: _Work, schema: TableSchema) -> None:
        lines = _rows_of(work.batch)
        for chunk in chunks(work.batch):
            lines += self._read(work, chunk)
        self._convert_lines(work, lines, schema)

    # --- many at a time ---------------------------------------------------------------------------------------------

    def _convert_chunk(self, work: _Work, chunk: Chunk, whole_batches: WholeBatches) -> bool:
        """Converts a complete chunk at a time. If the chunk is refused, converts each half of the chunk separately.

        A refused chunk of a few messages is converted one by one. If all of the first half was converted one by one, a
        refused second half is too. Returns whether any messages were converted at a time.
        """
        if self._is_converted(work, chunk, whole_batches):
            return True
        if len(chunk) <= whole_batches.few:
            self._convert_one_by_one(work, chunk, whole_batches)
            return False
        first, rest = chunk.halves()
        if self._convert_chunk(work, first, whole_batches):
            self._convert_chunk(work, rest, whole_batches)
            return True
        if self._is_converted(work, rest, whole_batches):
            return True
        for piece in rest.pieces():
            self._convert_one_by_one(work, piece, whole_batches)
        return False

    def _is_converted(self, work: _Work, chunk: Chunk, whole_batches: WholeBatches) -> bool:
        tps = self._tps(work, chunk.parts.to_pylist()) if self.metadata else []
        try:
            rows = whole_batches.convert(chunk, tps, self.schema.current)
            refuse_too_long(rows.partition_values, work.batch.parts, self.spec, self.table_root)
        except (OneByOneError, BadRowsError):
            return False
        work.add(rows, {})
        return True

    # --- one by one -------------------------------------------------------------------------------------------------

    def _convert_one_by_one(self, work: _Work, chunk: Chunk, whole_batches: WholeBatches) -> None:
        lines = self._read(work, chunk)
        whole_batches.learn(self._convert_lines(work, lines, self.schema.current))

    def _read(self, work: _Work, chunk: Chunk) -> list[_Line]:
        lines: list[_Line] = []
        for place, part, message in zip(chunk.places, chunk.parts.to_pylist(), chunk.messages, strict=True):
            read = self.read_message(message) if self.read_message else None
            if isinstance(read, Row):
                lines.append(_Line(read, part, place))
            elif read is not None:
                work.refused.append((place, read))
        return lines

    def _convert_lines(self, work: _Work, lines: list[_Line], schema: TableSchema) -> Sequence[Row]:
        """Converts rows. Returns the accepted rows, with dropped, renamed and hashed fields."""
        while lines:
            parts = [line.part for line in lines]
            try:
                rows = self._apply_rules([line.row for line in lines])
                tps = self._tps(work, parts) if self.metadata else []
                extra = metadata_columns(self.metadata, rows, tps)
                if self.rules.timestamp_as:
                    extra[self.rules.timestamp_as] = moments_of(rows, self.spec)
                values = partition_columns(rows, self.spec, extra)
                refuse_too_long(values, work.batch.parts, self.spec, self.table_root)
                conversion = self._conversion(work, rows, schema, extra)
            except BadRowsError as error:
                for index, reason in error.reasons.items():
                    row, part, place = lines[index]
                    tp = work.batch.parts[part].offsets.tp
                    work.refused.append((place, not_written(reason, row, tp, error.hint or _HINT)))
                lines = [line for index, line in enumerate(lines) if index not in error.reasons]
            else:
                has_timestamps = any(self.spec.timestamp_column in row.value for row in rows)
                work.add(
                    Rows(conversion.table, values, pa.array(parts, pa.int32()), has_timestamps), conversion.rescued
                )
                return rows
        return []

    def _apply_rules(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Returns the rows with dropped, renamed and hashed fields.

        Raises:
            BadRowsError: two fields of a row would have the same column name.
        """
        if not self.field_rules:
            return rows
        changed: list[Row] = []
        reasons: dict[int, Reason] = {}
        for index, row in enumerate(rows):
            try:
                changed.append(row._replace(value=self.field_rules.row(row.value)))
            except ValueError as error:
                reasons[index] = Reason(str(error))
        if reasons:
            raise BadRowsError(reasons, _RENAME_HINT)
        return changed

    def _conversion(self, work: _Work, rows: Sequence[Row], schema: TableSchema, extra: Columns) -> Conversion:
        """Returns the rows as a table in the types that all members share. Without values, the table has no columns."""
        lost = lost_metadata(self.metadata, rows)
        while True:
            conversion = convert(rows, schema, self.rules, extra, most=work.most_scalars, lost=lost)
            if conversion.schema == schema:
                return conversion
            schema = self._extend(work, conversion.schema)
            if all(schema.columns.get(column.name) == column.type for column in conversion.table.schema):
                return conversion
            # Otherwise another member has just stored a different type for one of these columns.

    def _tps(self, work: _Work, parts: Sequence[int]) -> list[TopicPartition]:
        return [work.batch.parts[part].offsets.tp for part in parts]

    def _extend(self, work: _Work, schema: TableSchema) -> TableSchema:
        extended: TableSchema = work.patiently(lambda: self.schema.extend(schema))
        return extended

    # --- together ---------------------------------------------------------------------------------------------------

    def _join(self, work: _Work) -> Rows | None:
        rows = join_rows(work.converted, self.schema.current.columns) if work.converted else None
        if rows is None or rows.table.column_names:
            return rows
        # A table without columns would contain no rows.
        schema = self.schema.current
        if KEY_COLUMN not in schema.columns:
            schema = self._extend(work, TableSchema({**schema.columns, KEY_COLUMN: pa.string()}))
        nulls = pa.nulls(len(rows.parts), schema.columns[KEY_COLUMN])
        return replace(rows, table=pa.table({KEY_COLUMN: nulls}))


def _rows_of(batch: Batch) -> list[_Line]:
    """Returns the rows from ``transform()``. These rows precede the messages of the batch."""
    rows = ((row, part) for part, rows in enumerate(batch.rows) for row in rows)
    return [_Line(row, part, place) for place, (row, part) in enumerate(rows)]
