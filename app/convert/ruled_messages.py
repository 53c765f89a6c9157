"""Drops, renames and hashes the fields of many messages at a time. The result is the same as with ``FieldRules``."""

from collections.abc import Container

import pyarrow as pa

from app.convert.chunks import FEW, AllHeaders, Values
from app.convert.columns import Columns
from app.convert.whole_batches import MessageParser
from app.table.field_rules import FieldRules
from app.table.type_names import Types


class RuledMessages:
    """A ``MessageParser`` that drops, renames and hashes fields in the result of another parser."""

    def __init__(self, parser: MessageParser, rules: FieldRules) -> None:
        self._parser = parser
        self._rules = rules
        self._kinds: dict[str, pa.DataType] = {}  # types of dropped and hashed fields, because no column has their type

    def parse(self, values: Values, headers: AllHeaders, types: Types, fixed: Container[str]) -> Columns | None:
        parsed = self._parse(values, headers, types, fixed)
        if parsed is None and self._learn(values, headers):
            parsed = self._parse(values, headers, types, fixed)
        return parsed

    def _parse(self, values: Values, headers: AllHeaders, types: Types, fixed: Container[str]) -> Columns | None:
        rules = self._rules
        columns = {name: column for column in types if not rules.is_hashed(column) for name in rules.fields_of(column)}
        field_types = {name: types[column] for name, column in columns.items()}
        fixed_fields = frozenset(name for name, column in columns.items() if column in fixed)
        parsed = self._parser.parse(values, headers, self._kinds | field_types, fixed_fields)
        if parsed is None:
            return None
        empty = [name for name, array in parsed.items() if array.null_count == len(array)]
        absent = {
            name for name in empty if rules.is_renamed(name) and not self._parser.has_field(values, headers, name)
        }
        try:
            columns = rules.columns_of(name for name in parsed if name not in absent)
        except ValueError:
            return None
        rules.meet(parsed.keys() - empty)
        arrays = {column: parsed[name] for name, column in columns.items()}
        for column in filter(rules.is_hashed, [*arrays]):
            if (hashes := rules.hashes(arrays[column])) is None:
                return None
            arrays[column] = hashes
        return {column: pa.nulls(len(values), kind) for column, kind in types.items() if column not in arrays} | arrays

    def _learn(self, values: Values, headers: AllHeaders) -> bool:
        """Infers the types of dropped and hashed fields from a sample; returns whether any type is new."""
        sample = self._parser.parse(values[:FEW], headers[:FEW], {}, ()) or {}
        rules, before = self._rules, self._kinds
        names = (name for name in sample if rules.is_dropped(name) or rules.is_hashed(rules.column_of(name)))
        self._kinds = before | {name: _json_type(sample[name].type) for name in names}
        return self._kinds != before

    def has_field(self, values: Values, headers: AllHeaders, column: str) -> bool:
        return any(self._parser.has_field(values, headers, name) for name in self._rules.fields_of(column))


def _json_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type that JSON needs for values of this type: times and null become text."""
    if pa.types.is_struct(kind):
        fields = [pa.field(field.name, _json_type(field.type)) for field in kind]
        return pa.struct(fields or [pa.field("none", pa.string())])
    if pa.types.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    return pa.string() if pa.types.is_null(kind) or pa.types.is_temporal(kind) else kind
