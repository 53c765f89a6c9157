"""Which findings about columns, values and what is told of them are meant, and why."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Any

import pyarrow as pa

from app.convert.values import LONGEST_NAME, MAX_DEPTH, MAX_LISTS
from app.table.layout import RESCUED_COLUMN
from tests.parity.case import Record
from tests.parity.comparing import Finding
from tests.parity.contents import (
    KEY_COLUMN,
    all_values,
    are_related,
    column_values,
    depth,
    field_names,
    has_failed,
    inner_values,
    is_mixed,
    is_nothing,
    is_number,
    is_time_part,
    kinds_by_path,
    stamps_of_batch,
    values_of,
)


def types(finding: Finding) -> bool:
    match finding.kind:
        case "failed":
            timestamp = finding.case.timestamp_column
            return any(
                _is_refused(column_values(name, finding.records, timestamp))
                for name in field_names(finding.records, timestamp)
            )
        case "type":
            return is_mixed(finding) or _is_of_the_table(finding)
        case "bounds":
            return is_mixed(finding)
        case "index":
            mixed = any(is_mixed(replace(finding, where=name)) for name in finding.case.virtual)
            return mixed or (finding.where == "" and finding.ours and _has_no_virtual_value(finding))
        case "rescued":
            kinds = kinds_by_path(finding.where, values_of(finding, earlier=True), {})
            return any(len(found) > 1 for found in kinds.values())
        case "cell":
            equal = is_number(finding.theirs) and is_number(finding.ours) and finding.theirs == finding.ours
            kept = finding.column in finding.rescued or [finding.ours] == values_of(finding)
            return is_mixed(finding) and (equal or kept or _is_completed(finding))
    return False


def _is_of_the_table(finding: Finding) -> bool:
    """What other batches or Kafka partitions have is in all files of a batch here: null where it is not there."""
    known = kinds_by_path(finding.column, values_of(finding, earlier=True), {})
    here = kinds_by_path(finding.column, values_of(finding), {})
    return finding.theirs in (None, pa.null()) and finding.where in known and finding.where not in here


def _is_completed(finding: Finding) -> bool:
    """Kafka's timestamp, in a column of text, moments or days; null in one of booleans, which has no form for it."""
    [record] = finding.records
    if finding.where != finding.case.timestamp_column or finding.where in record.value:
        return False
    moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    text, wall_clock = moment.isoformat(timespec="milliseconds"), moment.replace(tzinfo=None)
    return finding.ours in (text, moment, wall_clock, moment.date(), None)


def _is_refused(values: Sequence[Any]) -> bool:
    try:
        pa.array(values).to_pylist()  # it takes some values that it cannot give back: bytes in a list of text
    except (pa.ArrowException, OverflowError, UnicodeError):
        return True
    return False


def no_value(finding: Finding) -> bool:
    if finding.kind == "type":
        return finding.theirs == pa.null() and finding.ours is None and not finding.where.endswith("[]")
    return finding.kind == "index" and finding.where == "" and finding.theirs and _has_no_virtual_value(finding)


def _has_no_virtual_value(finding: Finding) -> bool:
    return all(is_nothing(value) for name in finding.case.virtual for value in values_of(finding, name=name))


def empty_lists(finding: Finding) -> bool:
    if finding.kind == "type":
        return finding.theirs == pa.null() and finding.ours is None and finding.where.endswith("[]")
    elements = [each for value in values_of(finding, earlier=True) for each in inner_values(value)]
    unknown = any(isinstance(value, list | tuple) and all(map(is_nothing, value)) for value in elements)
    return finding.kind in ("cell", "rescued") and unknown and finding.column in finding.rescued


def empty_objects(finding: Finding) -> bool:
    if has_failed(finding):  # Parquet has no struct without fields
        return any(
            value == {}
            for record in finding.records
            if isinstance(record.value, dict)
            for field in record.value.values()
            if field != {}
            for value in inner_values(field)
        )
    return (
        finding.kind == "cell"
        and isinstance(finding.theirs, Mapping)
        and is_nothing(finding.theirs)
        and finding.ours is None
    )


def decimals(finding: Finding) -> bool:
    if finding.kind != "type" or finding.theirs is None:
        return False
    return bool(pa.types.is_decimal(finding.theirs) and finding.ours == pa.decimal128(38, 18))


def times_of_day(finding: Finding) -> bool:
    if finding.kind == "type":
        return bool(finding.theirs == pa.time64("us") and finding.ours == pa.string())
    if finding.kind == "index":
        return any(isinstance(value, time) for value in values_of(finding))
    return finding.kind == "cell" and isinstance(finding.theirs, time) and finding.ours == finding.theirs.isoformat()


def zones(finding: Finding) -> bool:
    if finding.kind == "type":
        has_zone = finding.theirs is not None and pa.types.is_timestamp(finding.theirs) and finding.theirs.tz
        return bool(has_zone and finding.ours == pa.timestamp("us", "UTC"))
    if finding.kind == "bounds" and finding.theirs and finding.ours and finding.theirs["type"] == "timestamp":
        return all(
            datetime.fromisoformat(finding.theirs[end]) == datetime.fromisoformat(finding.ours[end])
            for end in ("min", "max")
        )
    return is_time_part(finding) and any(
        isinstance(each, datetime) and each.utcoffset() for each in stamps_of_batch(finding)
    )


def not_finite(finding: Finding) -> bool:
    if has_failed(finding):
        return any(isinstance(value, float) and not math.isfinite(value) for value in all_values(finding))
    odd = any(isinstance(value, float) and not math.isfinite(value) for value in values_of(finding))
    return finding.kind == "bounds" and finding.ours is None and odd


def order(finding: Finding) -> bool:
    """Upwards by the column, nulls last, and in the order of arrival where equal."""
    wanted = finding.case.sort_column
    if finding.kind != "order" or not wanted:
        return False
    values = dict(zip((record.number for record in finding.records), values_of(finding, name=wanted), strict=True))
    ordered = sorted(finding.theirs, key=lambda number: (values[number] is None, values[number] or 0))
    return (tuple(ordered), tuple(sorted(finding.theirs))) == (tuple(finding.ours), tuple(finding.theirs))


def case_of_names(finding: Finding) -> bool:
    if finding.kind not in ("type", "cell", "rescued", "bounds", "index"):
        return False
    paths = _paths([*finding.earlier, *finding.batch], finding.case.timestamp_column)
    twins = {path for path in paths if any(path != other and path.lower() == other.lower() for other in paths)}
    if finding.kind == "index":
        return bool(twins.intersection(finding.case.virtual))
    return finding.column in finding.rescued and any(are_related(finding.where, path) for path in twins)


def _paths(records: Sequence[Record], timestamp_column: str) -> set[str]:
    """All columns and all that is inside them."""
    names = field_names(records, timestamp_column)
    return {path for name in names for path in kinds_by_path(name, column_values(name, records, timestamp_column), {})}


def our_names(finding: Finding) -> bool:
    if finding.kind == "rescued":
        return finding.where in (KEY_COLUMN, RESCUED_COLUMN) and not is_nothing(_of_field(finding))
    return finding.kind in ("cell", "type", "bounds") and finding.column == RESCUED_COLUMN


def _of_field(finding: Finding) -> Any:
    """What a record has in a field that is no column here."""
    [record] = finding.records
    return record.value.get(finding.where)


def levels(finding: Finding) -> bool:
    return (
        finding.kind in ("cell", "rescued", "type")
        and finding.column in finding.rescued
        and any(depth(value) > MAX_DEPTH or _list_levels(value) > MAX_LISTS for value in values_of(finding))
    )


def _list_levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, list) + max(map(_list_levels, inner), default=0)


def names(finding: Finding) -> bool:
    """Names that some readers refuse."""
    if finding.kind not in ("cell", "rescued", "type", "bounds") or finding.column not in finding.rescued:
        return False
    return _is_refused_name(finding.column or "") or any(_has_refused_name(value) for value in values_of(finding))


def _is_refused_name(name: str) -> bool:
    return not name or "\0" in name or len(name.encode()) > LONGEST_NAME


def _has_refused_name(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and any(map(_is_refused_name, value))) or any(map(_has_refused_name, inner))


def virtual_lists(finding: Finding) -> bool:
    """Arrow groups by no list or struct; a column of the batch is one as soon as one record has it."""
    columns = (column_values(name, finding.batch, finding.case.timestamp_column) for name in finding.case.virtual)
    nested = any(depth(value) for column in columns for value in column)
    return finding.kind == "index" and (finding.where, finding.theirs) == ("", False) and nested
