"""Converts rows to one Arrow table in the types of the table's schema, and adds new columns to the schema.

A value that does not fit its column without loss is stored in ``_rescued_data``. The row's other values stay in their
columns. C++ converts a complete column at a time. Only a column with values of several types is converted value by
value (``app.convert.values``).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.bounds import MAX_NEW_SCALARS, MAX_SCALARS
from app.convert.columns import Columns, coerce_array, has_values, infer
from app.convert.fields import field_names, field_values, infer_fields
from app.convert.kafka_columns import in_form_of
from app.convert.values import (
    CASE,
    FULL,
    Column,
    Growth,
    RefuseName,
    Rescue,
    coerce_column,
    is_empty,
    refusal_of_name,
)
from app.json_texts import to_json
from app.model import KEY_COLUMN, Row, known_timestamp
from app.reason_texts import Reason, about
from app.table.layout import RESCUED_COLUMN
from app.table.schema import TableSchema
from app.table.type_names import Types, contains, scalar_count

RESCUED_KEY = "__kafka_key"  # name of rescued message keys in _rescued_data, where __key may be a field of the record


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that decide how the columns of a table are converted.

    Args:
        timestamp_column: Column that receives the Kafka timestamp if a record does not contain this field.
        partition_columns: Columns that are stored in the folders' names, and not in the files.
        fixed: Types that the user has set, by column. A type in the schema takes precedence.
        timestamp_as: Name of an extra column for the values of ``timestamp_column`` as moments; ``None`` for no column.
        column_limit: Maximum number of scalar fields of a table. Records add no more fields to a table of this size.
        widens: Whether a column of the table may change from ``bigint`` to ``double``.
        refuse: Function that returns why the catalog refuses a column of this name, or ``None``.
    """

    timestamp_column: str
    partition_columns: frozenset[str]
    fixed: Types = field(default_factory=dict)
    timestamp_as: str | None = None
    column_limit: int = MAX_SCALARS
    widens: bool = True
    refuse: RefuseName = lambda _: None

    def most_scalars(self, schema: TableSchema) -> int:
        """Returns the maximum number of scalar fields of a table with this schema after the next batch."""
        return min(self.column_limit, _scalars(schema) + MAX_NEW_SCALARS)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Rows that were converted to a table.

    ``table`` contains the rows in the same order, and only columns with values in these rows. ``schema`` contains the
    columns of the given schema and the columns that these rows add. ``rescued`` contains rescued values by column.
    """

    table: pa.Table
    schema: TableSchema
    rescued: Mapping[str, Rescue]


def _scalars(schema: TableSchema) -> int:
    return sum(map(scalar_count, schema.columns.values()))


def convert(
    rows: Sequence[Row],
    schema: TableSchema,
    rules: Rules,
    extra: Mapping[str, pa.Array] = {},
    *,
    most: int | None = None,
    lost: Mapping[str, Mapping[int, Any]] = {},
) -> Conversion:
    """Converts rows to a table. A field that is missing, null or ``{}`` is null.

    ``extra`` contains further columns, as long as ``rows``. A column of ``extra`` overrides a field with its name. A
    partition column in ``extra`` is not stored. ``lost`` contains the values that ``extra`` cannot store, by name in
    ``_rescued_data`` and by row. ``most`` is the maximum number of scalar fields of the table after these rows, without
    the connector's own columns. The default is ``rules.most_scalars``.

    Raises:
        BadRowsError: records cannot be rows, because names of fields are not text or not Unicode.
    """
    free = (rules.most_scalars(schema) if most is None else most) - _scalars(schema)
    batch = _Conversion(rows, schema, rules, extra, Growth(free, rules.refuse))
    batch.add_fields()
    batch.add_timestamps()
    batch.add_keys()
    batch.add_extra()
    batch.add_lost(lost)
    return batch.finish()


class _Conversion:
    """Converts one batch: adds the batch's columns, then decides the order of the new columns."""

    def __init__(self, rows: Sequence[Row], schema: TableSchema, rules: Rules, extra: Columns, growth: Growth) -> None:
        self._rows = rows
        self._values = [row.value for row in rows]
        self._types = schema.columns
        self._rules = rules
        self._extra = extra
        self._columns: dict[str, Column] = {}
        self._rescued_fields: dict[int, dict[str, Any]] = {}
        self._rescued: dict[str, Rescue] = {}
        self._places: dict[int, dict[str, int]] = {}  # positions of fields in a record, by row
        own = (*rules.partition_columns, rules.timestamp_column, KEY_COLUMN, RESCUED_COLUMN, *self._extra)
        self._own = frozenset(own)
        self._folded = frozenset(name.lower() for name in (*own, *schema.columns))
        self._growth = growth
        names = field_names(self._values)
        self._rescue_surplus(names - self._types.keys() - self._own - rules.fixed.keys())
        maps = {name for name, kind in {**rules.fixed, **self._types}.items() if contains(kind, pa.types.is_map)}
        self._inferred = infer_fields(self._values, maps)

    def _rescue_surplus(self, unknown: Set[str]) -> None:
        """Rescues fields that would exceed the table's limit, before these fields become columns."""
        if len(unknown) <= self._growth.free:
            return
        with_values = (
            name for value in self._values for name, item in value.items() if name in unknown and not is_empty(item)
        )
        placed = dict.fromkeys(with_values)
        surplus = unknown - set(islice(placed, max(0, int(self._growth.free))))
        for row, value in enumerate(self._values):
            if surplus.isdisjoint(value):
                continue
            self._values[row] = {name: item for name, item in value.items() if name not in surplus}
            for name, item in value.items():
                if name in surplus and not is_empty(item):
                    self._rescue(name, row, item, FULL)

    def add_lost(self, lost: Mapping[str, Mapping[int, Any]]) -> None:
        """Rescues values that the metadata columns cannot store."""
        for name, values in lost.items():
            for row, value in values.items():
                self._rescue(name, row, value, "cannot be stored in its column", is_of_kafka=True)

    def add_fields(self) -> None:
        """Adds the fields of the records, except the timestamp."""
        for name, array in self._inferred.items():
            values = field_values(self._values, name)
            if name in self._own:
                self._rescue_shadowed(name, values)
            elif name not in self._types and name.lower() in self._folded:
                self._rescue_all(name, values, CASE)
            else:
                self._add(name, self._fitted(name, array, values, self._growth))

    def _fitted(self, name: str, array: pa.Array | None, values: Sequence[Any], growth: Growth) -> Column:
        """Fits values into the column's type. The user's settings may contain the type of a new column."""
        fixed = name in self._rules.fixed
        growth.widens = self._rules.widens or name not in self._types
        column = coerce_array(array, values, self._kind(name), fixed=fixed, growth=growth)
        return _from_first_value(column) if fixed and name not in self._types else column

    def _fitted_own(self, name: str, array: pa.Array | None, values: Sequence[Any]) -> Column:
        """Fits values into one of the connector's own columns. The limit of fields does not apply to these columns."""
        growth = Growth(1) if self._growth.is_full and self._kind(name) is None else self._growth
        return self._fitted(name, array, values, growth)

    def _kind(self, name: str) -> pa.DataType | None:
        return self._types.get(name, self._rules.fixed.get(name))

    def _rescue_shadowed(self, name: str, values: Sequence[Any]) -> None:
        """Rescues fields that have the name of one of the connector's columns, if the values differ from the column."""
        if name == RESCUED_COLUMN:
            self._rescue_all(name, values, f"in a field named {RESCUED_COLUMN}")
        elif name in self._extra:
            self._rescue_all(name, values, "in a field named like a metadata column", self._extra[name].to_pylist())
        elif name == KEY_COLUMN:
            self._rescue_all(name, values, "differs from the Kafka key", [row.key for row in self._rows])

    def add_timestamps(self) -> None:
        """Adds the timestamp column. A missing field is filled with the Kafka timestamp, but null stays null."""
        name = self._rules.timestamp_column
        if name in self._rules.partition_columns or name in self._extra:
            return
        array = self._inferred.get(name)
        values: Sequence[Any] = field_values(self._values, name)
        if name not in self._inferred or array is None or array.null_count:
            lacking = [name not in value for value in self._values]
            if any(lacking):
                values = self._completed(name, lacking, self._kind(name))
                array = infer(values)
        self._add(name, self._fitted_own(name, array, values))

    def _completed(self, name: str, lacking: list[bool], kind: pa.DataType | None) -> list[Any]:
        values = []
        for row, lacks in zip(self._rows, lacking, strict=True):
            value = known_timestamp(row.timestamp) if lacks else row.value[name]
            if kind is None:
                kind = coerce_column([value], None, fixed=False).kind
            values.append(in_form_of(kind, value) if lacks and value is not None else value)
        return values

    def add_keys(self) -> None:
        """Adds the column of message keys. This column takes precedence over a field of the same name."""
        if KEY_COLUMN in self._rules.partition_columns or KEY_COLUMN in self._extra:
            return
        keys = [row.key for row in self._rows]
        self._add(KEY_COLUMN, self._fitted_own(KEY_COLUMN, infer(keys), keys), RESCUED_KEY)

    def add_extra(self) -> None:
        for name, array in self._extra.items():
            kind = self._kind(name)
            if name in self._rules.partition_columns or array.null_count == len(array):
                continue
            if kind in (None, array.type):
                self._add(name, Column(array, array.type, {}, array.is_valid().index(True).as_py()))
            else:
                self._add(name, self._fitted_own(name, None, array.to_pylist()), name)

    def finish(self) -> Conversion:
        """Returns the columns in the order of the schema, then new columns in the order of their first values."""
        columns = dict(self._types)
        columns.update({name: column.kind for name, column in self._columns.items() if name in columns})
        folded = {name.lower() for name in (*columns, *self._own)}
        new = (name for name, column in self._columns.items() if name not in self._types and column.kind is not None)
        for name in sorted(new, key=self._first_seen):
            if name not in self._own:
                refusal = refusal_of_name(name, folded, self._rules.refuse)
                if refusal is not None:
                    del self._columns[name]
                    fields_by_row = self._rescued_fields if self._rescued.pop(name, None) else {}
                    for row in [
                        row for row, each in fields_by_row.items() if each.pop(name, None) is not None and not each
                    ]:
                        del self._rescued_fields[row]
                    self._rescue_all(name, field_values(self._values, name), refusal)
                    continue
            if self._rescued_fields and min(self._rescued_fields) < self._first_seen(name)[0]:
                columns.setdefault(RESCUED_COLUMN, pa.string())
            columns[name] = self._columns[name].kind
            folded.add(name.lower())
        arrays = {name: column.array for name, column in self._columns.items()}
        if self._rescued_fields:
            columns.setdefault(RESCUED_COLUMN, pa.string())
            texts = {row: to_json(fields) for row, fields in self._rescued_fields.items()}
            arrays[RESCUED_COLUMN] = pa.array(map(texts.get, range(len(self._rows))), pa.string())
        stored = {name: arrays[name] for name in columns if has_values(arrays.get(name))}
        # Arrow cannot count the rows of a table without columns. Therefore an extra column is added and removed.
        table = pa.table([*stored.values(), pa.nulls(len(self._rows))], [*stored, ""]).select([*range(len(stored))])
        return Conversion(table, TableSchema(columns), self._rescued)

    def _first_seen(self, name: str) -> tuple[int, int]:
        """Returns the row that decided the column's type, and the field's position. Own columns are last."""
        row = self._columns[name].typed or 0
        if row not in self._places:
            self._places[row] = {name: place for place, name in enumerate(self._values[row])}
        place = self._places[row].get(name)
        return row, len(self._places[row]) + list(self._columns).index(name) if place is None else place

    def _add(self, name: str, column: Column, of_kafka: str | None = None) -> None:
        self._columns[name] = column
        for row, misfit in column.misfits.items():
            self._rescue(of_kafka or name, row, misfit.value, misfit.reason, is_of_kafka=of_kafka is not None)

    def _rescue_all(self, name: str, values: Iterable[Any], why: str, equal_to: Iterable[Any] = repeat(None)) -> None:
        for row, (value, other) in enumerate(zip(values, equal_to, strict=False)):
            if not is_empty(value) and not (type(value) is type(other) and value == other):
                self._rescue(name, row, value, why)

    def _rescue(self, name: str, row: int, value: Any, why: str | Reason, *, is_of_kafka: bool = False) -> None:
        """Rescues a value. If a field has the name of Kafka metadata, the metadata gets another one."""
        so_far = self._rescued.get(name)
        if so_far:
            self._rescued[name] = Rescue(so_far.count + 1, so_far.example)
        else:
            self._rescued[name] = Rescue(1, why if isinstance(why, Reason) else about(value, f" {why}"))
        while is_of_kafka and name in self._rows[row].value:
            name = f"_{name}"
        self._rescued_fields.setdefault(row, {})[name] = value


def _from_first_value(column: Column) -> Column:
    """Returns a column of a type that the user has set. The first value that fits creates the column."""
    if column.array is None or not has_values(column.array):
        return Column(None, None, column.misfits, None)
    return column._replace(typed=int(pc.index(column.array.is_valid(), True).as_py()))
