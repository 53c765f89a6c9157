"""Drops, renames and hashes the fields of many messages at once, with the same result as ``FieldRules`` one by one."""

from collections.abc import Container, Mapping, Sequence

import pyarrow as pa

from app.convert.chunks import FEW
from app.convert.whole_batches import AllHeaders, MessageParser
from app.table.field_rules import FieldRules


class RuledMessages:
    """A ``MessageParser`` that follows rules, around another one."""

    def __init__(self, parser: MessageParser, rules: FieldRules) -> None:
        self._parser = parser
        self._rules = rules
        self._kinds: dict[str, pa.DataType] = {}  # of dropped and hashed fields, which no column tells

    def parse(
        self, values: Sequence[bytes], headers: AllHeaders, wanted: Mapping[str, pa.DataType], fixed: Container[str]
    ) -> Mapping[str, pa.Array] | None:
        rules = self._rules
        plain = {column: name for column in wanted if not rules.is_hashed(column) and (name := rules.field_of(column))}
        asked = {name: wanted[column] for column, name in plain.items()}
        given = frozenset(name for column, name in plain.items() if column in fixed)
        parsed = self._parser.parse(values, headers, self._kinds | asked, given)
        if parsed is None and self._learn(values, headers):
            parsed = self._parser.parse(values, headers, self._kinds | asked, given)
        if parsed is None:
            return None
        try:
            columns = rules.columns_of(parsed)
        except ValueError:
            return None
        rules.meet(name for name, array in parsed.items() if array.null_count < len(array))
        found = {column: parsed[name] for name, column in columns.items()}
        for column in filter(rules.is_hashed, [*found]):
            if (hashes := rules.hashes(found[column])) is None:
                return None
            found[column] = hashes
        lacking = {column: pa.nulls(len(values), kind) for column, kind in wanted.items() if column not in found}
        return lacking | found

    def _learn(self, values: Sequence[bytes], headers: AllHeaders) -> bool:
        """Looks for the types of the fields that no column tells; returns whether one is new."""
        sample = self._parser.parse(values[:FEW], headers[:FEW], {}, ()) or {}
        rules, before = self._rules, self._kinds
        found = (name for name in sample if rules.is_dropped(name) or rules.is_hashed(rules.column_of(name)))
        self._kinds = before | {name: sample[name].type for name in found}
        return self._kinds != before

    def has_field(self, values: Sequence[bytes], headers: AllHeaders, column: str) -> bool:
        name = self._rules.field_of(column)
        return name is not None and self._parser.has_field(values, headers, name)
