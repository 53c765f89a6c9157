"""What the records of a finding hold."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from app.table.layout import TIME_COLUMNS
from tests.parity.case import Record
from tests.parity.comparing import Finding

KEY_COLUMN = "__key"


def column_values(name: str, records: Sequence[Record], timestamp_column: str) -> list[Any]:
    """A column as both sinks complete it, null where a record has nothing."""
    if name == KEY_COLUMN:
        return [record.key for record in records]
    values = []
    for record in records:
        if isinstance(record.value, dict):
            value = record.value.get(name, record.timestamp if name == timestamp_column else None)
            values.append(None if value == {} else value)
    return values


def values_of(finding: Finding, *, earlier: bool = False, name: str | None = None) -> list[Any]:
    records = [*finding.earlier, *finding.batch] if earlier else finding.records
    return column_values(finding.column if name is None else name, records, finding.case.timestamp_column)


def field_names(records: Sequence[Record], timestamp_column: str) -> list[Any]:
    fields = {name: None for record in records if isinstance(record.value, dict) for name in record.value}
    return [*(fields | {timestamp_column: None, KEY_COLUMN: None})]


def _kind(value: Any) -> str:
    if isinstance(value, datetime):
        return "datetime" if value.tzinfo is None else "datetime with a zone"
    return "list" if isinstance(value, list | tuple) else type(value).__name__


def kinds_by_path(path: str, values: Sequence[Any], into: dict[str, set[str]]) -> dict[str, set[str]]:
    """The kinds of values at each path of a column."""
    for value in values:
        if value is None:
            continue
        into.setdefault(path, set()).add(_kind(value))
        if isinstance(value, Mapping):
            for name, inner in value.items():
                kinds_by_path(f"{path}.{name}", [inner], into)
        elif isinstance(value, list | tuple):
            kinds_by_path(f"{path}[]", value, into)
    return into


def is_mixed(finding: Finding) -> bool:
    """Whether values of several kinds have come at the path, or above it, or inside."""
    kinds = kinds_by_path(finding.column, values_of(finding, earlier=True), {})
    return any(len(found) > 1 and are_related(finding.where, path) for path, found in kinds.items())


def are_related(one: str, other: str) -> bool:
    """Whether one of two paths leads through the other."""
    return _lies_in(one, other) or _lies_in(other, one)


def _lies_in(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def inner_values(value: Any) -> Iterator[Any]:
    """A value, and all that is inside it."""
    yield value
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from inner_values(each)


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def all_values(finding: Finding) -> Iterator[Any]:
    for record in finding.records:
        yield from inner_values(record.value)


def has_failed(finding: Finding) -> bool:
    return finding.kind == "failed"


def is_time_part(finding: Finding) -> bool:
    return finding.kind == "value" and finding.where in TIME_COLUMNS


def is_own_value(finding: Finding) -> bool:
    return finding.kind == "value" and finding.where not in TIME_COLUMNS


def stamps_of(finding: Finding) -> list[Any]:
    return values_of(finding, name=finding.case.timestamp_column)


def is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping) and all(map(is_nothing, value.values())))


def stamps_of_batch(finding: Finding) -> list[Any]:
    stamps = column_values(finding.case.timestamp_column, finding.batch, finding.case.timestamp_column)
    return [stamp for stamp in stamps if stamp is not None]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
