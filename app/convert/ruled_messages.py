"""Drops, renames and hashes the fields of many messages at once, with the same result as ``FieldRules`` one by one."""

from collections.abc import Container

import pyarrow as pa

from app.convert.chunks import FEW, AllHeaders, Values
from app.convert.columns import Columns
from app.convert.whole_batches import MessageParser
from app.table.field_rules import FieldRules
from app.table.type_names import Types


class RuledMessages:
    """A ``MessageParser`` that follows rules, around another one."""

    def __init__(self, parser: MessageParser, rules: FieldRules) -> None:
        self._parser = parser
        self._rules = rules
        self._kinds: dict[str, pa.DataType] = {}  # of dropped and hashed fields, which no column tells

    def parse(self, values: Values, headers: AllHeaders, wanted: Types, fixed: Container[str]) -> Columns | None:
        parsed = self._parse(values, headers, wanted, fixed)
        if parsed is None and self._learn(values, headers):
            parsed = self._parse(values, headers, wanted, fixed)
        return parsed

    def _parse(self, values: Values, headers: AllHeaders, wanted: Types, fixed: Container[str]) -> Columns | None:
        rules = self._rules
        columns = {name: column for column in wanted if not rules.is_hashed(column) for name in rules.fields_of(column)}
        asked = {name: wanted[column] for name, column in columns.items()}
        given = frozenset(name for name, column in columns.items() if column in fixed)
        parsed = self._parser.parse(values, headers, self._kinds | asked, given)
        if parsed is None:
            return None
        lacking = [name for name, array in parsed.items() if array.null_count == len(array)]
        absent = {
            name for name in lacking if rules.is_renamed(name) and not self._parser.has_field(values, headers, name)
        }
        try:
            named = rules.columns_of(name for name in parsed if name not in absent)
        except ValueError:
            return None
        rules.meet(parsed.keys() - lacking)
        found = {column: parsed[name] for name, column in named.items()}
        for column in filter(rules.is_hashed, [*found]):
            if (hashes := rules.hashes(found[column])) is None:
                return None
            found[column] = hashes
        return {column: pa.nulls(len(values), kind) for column, kind in wanted.items() if column not in found} | found

    def _learn(self, values: Values, headers: AllHeaders) -> bool:
        """Looks for the types of the fields that no column tells; returns whether one is new."""
        sample = self._parser.parse(values[:FEW], headers[:FEW], {}, ()) or {}
        rules, before = self._rules, self._kinds
        found = (name for name in sample if rules.is_dropped(name) or rules.is_hashed(rules.column_of(name)))
        self._kinds = before | {name: _of_json(sample[name].type) for name in found}
        return self._kinds != before

    def has_field(self, values: Values, headers: AllHeaders, column: str) -> bool:
        return any(self._parser.has_field(values, headers, name) for name in self._rules.fields_of(column))


def _of_json(kind: pa.DataType) -> pa.DataType:
    """Returns a type that JSON is parsed into: times are text there, and null may be anything."""
    if pa.types.is_struct(kind):
        fields = [pa.field(field.name, _of_json(field.type)) for field in kind]
        return pa.struct(fields or [pa.field("none", pa.string())])
    if pa.types.is_list(kind):
        return pa.list_(_of_json(kind.value_type))
    return pa.string() if pa.types.is_null(kind) or pa.types.is_temporal(kind) else kind
