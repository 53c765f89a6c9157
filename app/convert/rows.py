"""Converts rows into one Arrow table in the types of the table's schema, and extends the schema by new columns.

A value that its column cannot store without loss goes to ``_rescued_data``; the rest of its row is not affected.
Columns are converted as a whole, in C++, and value by value only if they mix kinds (``app.convert.values``).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.convert.bounds import MAX_NEW_SCALARS, MAX_SCALARS
from app.convert.columns import Columns, coerce_array, has_values, infer
from app.convert.fields import FieldValues, field_names, infer_fields
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
from app.table.type_names import Types, scalar_count

RESCUED_KEY = "__kafka_key"  # a Kafka key that does not fit, in _rescued_data: there __key is the record's own field


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a table that decide how its columns are converted.

    Args:
        timestamp_column: gets the Kafka timestamp if a record lacks it.
        partition_columns: are in the folders' names, not in the files.
        fixed: the types that the user has set, by column; the type in the schema takes precedence.
        timestamp_as: the column with the moment of the timestamp column, if there is one.
        column_limit: the scalar fields of a table that no record adds to.
        widens: whether a column of the table may change from ``bigint`` to ``double``.
        refuse: why the catalog allows no column of a name, if so.
    """

    timestamp_column: str
    partition_columns: frozenset[str]
    fixed: Types = field(default_factory=dict)
    timestamp_as: str | None = None
    column_limit: int = MAX_SCALARS
    widens: bool = True
    refuse: RefuseName = lambda _: None

    def most_scalars(self, schema: TableSchema) -> int:
        """Returns how many scalar fields a table with this schema may have after one more batch."""
        return min(self.column_limit, _scalars(schema) + MAX_NEW_SCALARS)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Rows as a table.

    ``table`` has one row per given row, in the same order, and those columns of ``schema`` that have a value in it.
    ``schema`` is the given one with the columns that these rows add. ``rescued`` has, by column, what did not fit.
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
    """Converts rows to a table; a field that is missing, null or ``{}`` is null.

    ``extra`` has further columns, as long as ``rows``. They take precedence over fields of the same name, and are not
    stored if they are partition columns. ``lost`` has the values that ``extra`` cannot store, by the name in
    ``_rescued_data`` and the row. ``most`` is the number of scalar fields that the table may have after these rows,
    without the connector's own columns; by default ``rules.most_scalars``.

    Raises:
        BadRowsError: records cannot be rows: names are not text or not Unicode.
    """
    left = (rules.most_scalars(schema) if most is None else most) - _scalars(schema)
    growth = Growth(left, rules.refuse)
    batch = _Conversion(rows, schema, rules, extra, growth)
    batch.add_fields()
    batch.add_timestamps()
    batch.add_keys()
    batch.add_extra()
    batch.add_lost(lost)
    return batch.finish()


class _Conversion:
    """Converts one batch: adds its columns, then chooses the order of the new ones."""

    def __init__(self, rows: Sequence[Row], schema: TableSchema, rules: Rules, extra: Columns, growth: Growth) -> None:
        self._rows = rows
        self._values = [row.value for row in rows]
        self._known = schema.columns
        self._rules = rules
        self._extra = extra
        self._columns: dict[str, Column] = {}
        self._left_over: dict[int, dict[str, Any]] = {}
        self._rescued: dict[str, Rescue] = {}
        self._places: dict[int, dict[str, int]] = {}  # of the fields of a row
        own = (*rules.partition_columns, rules.timestamp_column, KEY_COLUMN, RESCUED_COLUMN, *self._extra)
        self._own = frozenset(own)
        self._folded = frozenset(name.lower() for name in (*own, *schema.columns))
        self._growth = growth
        names = field_names(self._values)
        self._without_surplus(names - self._known.keys() - self._own - rules.fixed.keys())
        self._inferred = infer_fields(self._values)

    def _without_surplus(self, unknown: Set[str]) -> None:
        """Rescues the fields for which the table has no place, before columns are made of them."""
        if len(unknown) <= self._growth.left:
            return
        with_values = (
            name for value in self._values for name, each in value.items() if name in unknown and not is_empty(each)
        )
        placed = dict.fromkeys(with_values)
        surplus = unknown - set(islice(placed, max(0, int(self._growth.left))))
        for row, value in enumerate(self._values):
            if surplus.isdisjoint(value):
                continue
            self._values[row] = {name: each for name, each in value.items() if name not in surplus}
            for name, each in value.items():
                if name in surplus and not is_empty(each):
                    self._rescue(name, row, each, FULL)

    def add_lost(self, lost: Mapping[str, Mapping[int, Any]]) -> None:
        """Rescues values that the metadata columns cannot store."""
        for name, values in lost.items():
            for row, value in values.items():
                self._rescue(name, row, value, "has no form in its column", is_of_kafka=True)

    def add_fields(self) -> None:
        """Adds the records' own fields, except the timestamp."""
        for name, array in self._inferred.items():
            values = FieldValues(self._values, name)
            if name in self._own:
                self._add_shadowed(name, values)
            elif name not in self._known and name.lower() in self._folded:
                self._rescue_all(name, values, CASE)
            else:
                self._add(name, self._fitted(name, array, values, self._growth))

    def _fitted(self, name: str, array: pa.Array | None, values: Sequence[Any], growth: Growth) -> Column:
        """Fits a column into the table's type or, if the column is new, into the type that the user has set."""
        fixed = name in self._rules.fixed
        growth.widens = self._rules.widens or name not in self._known
        column = coerce_array(array, values, self._kind(name), fixed=fixed, growth=growth)
        return _appearing(column) if fixed and name not in self._known else column

    def _fitted_own(self, name: str, array: pa.Array | None, values: Sequence[Any]) -> Column:
        """Fits one of the connector's own columns: it gets a place even if the table is full."""
        growth = Growth(1) if self._growth.is_full and self._kind(name) is None else self._growth
        return self._fitted(name, array, values, growth)

    def _kind(self, name: str) -> pa.DataType | None:
        return self._known.get(name, self._rules.fixed.get(name))

    def _add_shadowed(self, name: str, values: Sequence[Any]) -> None:
        """Rescues fields that have the name of one of the connector's own columns, if their values differ from it."""
        if name == RESCUED_COLUMN:
            self._rescue_all(name, values, f"in a field named {RESCUED_COLUMN}")
        elif name in self._extra:
            self._rescue_all(name, values, "in a field of the name of a metadata column", self._extra[name].to_pylist())
        elif name == KEY_COLUMN:
            self._rescue_all(name, values, "differs from the Kafka key", [row.key for row in self._rows])

    def add_timestamps(self) -> None:
        """Adds the timestamp column: Kafka's timestamp if a record lacks the field; an explicit null stays null."""
        name = self._rules.timestamp_column
        if name in self._rules.partition_columns or name in self._extra:
            return
        array = self._inferred.get(name)
        values: Sequence[Any] = FieldValues(self._values, name)
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
        """Adds the Kafka keys; the column takes precedence over a field of the same name."""
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
        """Returns the columns in the order of the schema, new ones in the order they were first seen."""
        columns = dict(self._known)
        columns.update({name: column.kind for name, column in self._columns.items() if name in columns})
        folded = {name.lower() for name in (*columns, *self._own)}
        new = (name for name, its in self._columns.items() if name not in self._known and its.kind is not None)
        for name in sorted(new, key=self._first_seen):
            if name not in self._own:
                refusal = refusal_of_name(name, folded, self._rules.refuse)
                if refusal is not None:
                    del self._columns[name]
                    self._rescued.pop(name, None)
                    self._rescue_all(name, FieldValues(self._values, name), refusal)
                    continue
            if self._left_over and min(self._left_over) < self._first_seen(name)[0]:
                columns.setdefault(RESCUED_COLUMN, pa.string())
            columns[name] = self._columns[name].kind
            folded.add(name.lower())
        arrays = {name: column.array for name, column in self._columns.items()}
        if self._left_over:
            columns.setdefault(RESCUED_COLUMN, pa.string())
            texts = {row: to_json(fields) for row, fields in self._left_over.items()}
            arrays[RESCUED_COLUMN] = pa.array(map(texts.get, range(len(self._rows))), pa.string())
        stored = {name: arrays[name] for name in columns if has_values(arrays.get(name))}
        # Made of no columns, a table would have no rows either.
        table = pa.table([*stored.values(), pa.nulls(len(self._rows))], [*stored, ""]).select([*range(len(stored))])
        return Conversion(table, TableSchema(columns), self._rescued)

    def _first_seen(self, name: str) -> tuple[int, int]:
        """Returns the row that decided the column's type, and the field's place in it; our own columns come last."""
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
        """Keeps what does not fit; Kafka's metadata under a name that no field of the record has."""
        so_far = self._rescued.get(name)
        if so_far:
            self._rescued[name] = Rescue(so_far.count + 1, so_far.example)
        else:
            self._rescued[name] = Rescue(1, why if isinstance(why, Reason) else about(value, f" {why}"))
        while is_of_kafka and name in self._rows[row].value:
            name = f"_{name}"
        self._left_over.setdefault(row, {})[name] = value


def _appearing(column: Column) -> Column:
    """Lets a new column of a type that the user has set exist from the first value on that fits."""
    if column.array is None or not has_values(column.array):
        return Column(None, None, column.misfits, None)
    return column._replace(typed=int(pc.index(column.array.is_valid(), True).as_py()))
