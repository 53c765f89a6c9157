"""All that the connector does otherwise than the dependency's sink, on purpose.

``docs/architecture.md`` has the same list for readers. Each entry says precisely which findings it explains; a finding
that none explains is a fault in the connector, or a difference that was not meant.
"""

import math
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

import pyarrow as pa

from app.fitting import MAX_DEPTH
from app.partitioning import QUIX_NULL, escape
from app.rescue import RESCUED_COLUMN
from app.timestamps import TIME_COLUMNS
from tests.parity.case import TOPIC, Record
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
    is_own_value,
    is_time_part,
    kinds_by_path,
    stamps_of,
    stamps_of_batch,
    values_of,
)

_FIRST_BY_NANOSECONDS, _LAST_BY_NANOSECONDS = datetime(1677, 9, 22, tzinfo=UTC), datetime(2262, 4, 11, tzinfo=UTC)


@dataclass(frozen=True)
class Difference:
    """One row of the table in the documentation."""

    title: str
    explains: Callable[[Finding], bool]


def explanation(finding: Finding) -> str | None:
    """The title of the first difference that explains a finding."""
    return next((difference.title for difference in DIFFERENCES if difference.explains(finding)), None)


def _file_names(finding: Finding) -> bool:
    return (
        finding.kind == "name"
        and re.fullmatch(r"data_[0-9a-f]{32}\.parquet", finding.theirs) is not None
        and re.fullmatch(rf"data_{TOPIC}-\d+_\d{{19}}-\d+_[0-9a-f]{{8}}-\d+\.parquet", finding.ours) is not None
    )


def _writer(finding: Finding) -> bool:
    pairs = (
        ("PUT.properties.created_by", "quixstreams-quix-lake-sink"),
        ("POST sources.source.properties.sink", "quixstreams-quix-ts-datalake-sink"),
        ("POST manifest/add-files.source.properties.sink", "quixstreams-quix-ts-datalake-sink"),
    )
    return (
        finding.kind == "request"
        and (finding.where, finding.theirs) in pairs
        and finding.ours == "quix-ts-datalake-sink"
    )


def _special_characters(finding: Finding) -> bool:
    columns = [name for name in finding.case.partitions if name not in TIME_COLUMNS]
    if has_failed(finding):  # no file system has NUL in a name
        return any(
            "\0" in value for name in columns for value in values_of(finding, name=name) if isinstance(value, str)
        )
    if finding.kind != "folder":
        return False
    values = {name: _text(finding, name) for name in columns}
    special = [f"{escape(name)}={escape(value)}" for name, value in values.items() if escape(value) != value]
    raw = [f"{name}={value}" for name, value in values.items() if escape(value) != value]
    normal = posixpath.normpath(finding.theirs)
    return (
        bool(special)
        and all(part in finding.ours.split("/") for part in special)
        and all(posixpath.normpath(part).rpartition("..")[2].strip("/") in normal for part in raw)
    )


def _text(finding: Finding, name: str) -> str:
    [value] = values_of(finding, name=name)
    return QUIX_NULL if value is None else str(value)


def _empty_text(finding: Finding) -> bool:
    return is_own_value(finding) and (finding.theirs, finding.ours) == ("", QUIX_NULL) and values_of(finding) == [""]


def _bytes(finding: Finding) -> bool:
    if not is_own_value(finding) or not isinstance(finding.theirs, str):
        return False
    [value] = values_of(finding)
    return isinstance(value, bytes) and finding.theirs == str(value) and finding.ours == value.decode()


def _own_text(finding: Finding) -> bool:
    """The batch's column as Arrow has it shows the value otherwise than the record itself."""
    if not is_own_value(finding):
        return False
    column = pa.array(column_values(finding.where, finding.batch, finding.case.timestamp_column))
    place = [record.number for record in finding.batch].index(finding.records[0].number)
    [value] = values_of(finding)
    return bool(finding.theirs == str(column[place].as_py()) and finding.ours == str(value))


def _types(finding: Finding) -> bool:
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
            return is_mixed(finding) or (finding.where == "" and finding.ours and _has_no_virtual_value(finding))
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
    """Kafka's timestamp, in a column of text, moments or days."""
    [record] = finding.records
    if finding.where != finding.case.timestamp_column or finding.where in record.value:
        return False
    moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    return finding.ours in (
        moment.isoformat(timespec="milliseconds"),
        moment,
        moment.replace(tzinfo=None),
        moment.date(),
    )


def _is_refused(values: Sequence[Any]) -> bool:
    try:
        pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return True
    return False


def _no_value(finding: Finding) -> bool:
    if finding.kind == "type":
        return finding.theirs == pa.null() and finding.ours is None and not finding.where.endswith("[]")
    return finding.kind == "index" and finding.where == "" and finding.theirs and _has_no_virtual_value(finding)


def _has_no_virtual_value(finding: Finding) -> bool:
    return all(is_nothing(value) for name in finding.case.virtual for value in values_of(finding, name=name))


def _empty_lists(finding: Finding) -> bool:
    if finding.kind == "type":
        return finding.theirs == pa.null() and finding.ours is None and finding.where.endswith("[]")
    elements = [each for value in values_of(finding, earlier=True) for each in inner_values(value)]
    unknown = any(isinstance(value, list | tuple) and all(map(is_nothing, value)) for value in elements)
    return finding.kind in ("cell", "rescued") and unknown and finding.column in finding.rescued


def _empty_objects(finding: Finding) -> bool:
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


def _decimals(finding: Finding) -> bool:
    if finding.kind != "type" or finding.theirs is None:
        return False
    return bool(pa.types.is_decimal(finding.theirs) and finding.ours == pa.decimal128(38, 18))


def _times_of_day(finding: Finding) -> bool:
    if finding.kind == "type":
        return bool(finding.theirs == pa.time64("us") and finding.ours == pa.string())
    if finding.kind == "index":
        return any(isinstance(value, time) for value in values_of(finding))
    return finding.kind == "cell" and isinstance(finding.theirs, time) and finding.ours == finding.theirs.isoformat()


def _zones(finding: Finding) -> bool:
    if finding.kind == "type":
        has_zone = finding.theirs is not None and pa.types.is_timestamp(finding.theirs) and finding.theirs.tz
        return bool(has_zone and finding.ours == pa.timestamp("us", "UTC"))
    if finding.kind == "bounds" and finding.theirs and finding.ours and finding.theirs["type"] == "timestamp":
        return all(_moment(finding.theirs[end]) == _moment(finding.ours[end]) for end in ("min", "max"))
    return is_time_part(finding) and any(
        isinstance(each, datetime) and each.utcoffset() for each in stamps_of_batch(finding)
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _unit(stamp: float) -> int:
    return sum(abs(stamp) > bound for bound in (1e11, 1e14, 1e17))


def _units(finding: Finding) -> bool:
    if not is_time_part(finding):
        return False
    stamps = stamps_of_batch(finding)
    return all(map(is_number, stamps)) and _unit(stamps_of(finding)[0]) != _unit(stamps[0])


def _before_1970(finding: Finding) -> bool:
    return is_time_part(finding) and is_number(stamps_of(finding)[0]) and stamps_of_batch(finding)[0] < 0


def _early_years(finding: Finding) -> bool:
    return finding.kind == "value" and finding.where == "year" and [finding.ours] == [finding.theirs.zfill(4)]


def _text_stamps(finding: Finding) -> bool:
    if not has_failed(finding) or not set(TIME_COLUMNS) & set(finding.case.partitions):
        return False
    stamps = [stamp for stamp in stamps_of(finding) if isinstance(stamp, str)]
    moments = [_moment(stamp) for stamp in stamps]
    if len({moment.tzinfo is None for moment in moments}) > 1:
        return True
    zoned = [moment.replace(tzinfo=moment.tzinfo or UTC) for moment in moments]
    return any(not _FIRST_BY_NANOSECONDS < moment < _LAST_BY_NANOSECONDS for moment in zoned)


def _bad_records(finding: Finding) -> bool:
    return finding.kind == "rejected" or (has_failed(finding) and bool(finding.ours))


def _not_finite(finding: Finding) -> bool:
    if has_failed(finding):
        return any(isinstance(value, float) and not math.isfinite(value) for value in all_values(finding))
    odd = any(isinstance(value, float) and not math.isfinite(value) for value in values_of(finding))
    return finding.kind == "bounds" and finding.ours is None and odd


def _order(finding: Finding) -> bool:
    """Upwards by the column, nulls last, and in the order of arrival where equal."""
    wanted = finding.case.sort_column
    if finding.kind != "order" or not wanted:
        return False
    values = dict(zip((record.number for record in finding.records), values_of(finding, name=wanted), strict=True))
    ordered = sorted(finding.theirs, key=lambda number: (values[number] is None, values[number] or 0))
    return (tuple(ordered), tuple(sorted(finding.theirs))) == (tuple(finding.ours), tuple(finding.theirs))


def _registration(finding: Finding) -> bool:
    partitions = {record.partition for record in finding.records}
    return (finding.kind, finding.where) == ("requests", "POST manifest/add-files") and finding.theirs == len(
        partitions
    ) > finding.ours == 1


def _case_of_names(finding: Finding) -> bool:
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


def _our_names(finding: Finding) -> bool:
    if finding.kind == "rescued":
        return finding.where in (KEY_COLUMN, RESCUED_COLUMN) and not is_nothing(_of_field(finding))
    return finding.kind in ("cell", "type", "bounds") and finding.column == RESCUED_COLUMN


def _of_field(finding: Finding) -> Any:
    """What a record has in a field that is no column here."""
    [record] = finding.records
    return record.value.get(finding.where)


def _levels(finding: Finding) -> bool:
    return (
        finding.kind in ("cell", "rescued", "type")
        and finding.column in finding.rescued
        and max(map(depth, values_of(finding))) > MAX_DEPTH
    )


def _virtual_lists(finding: Finding) -> bool:
    """Arrow groups by no list or struct; a column of the batch is one as soon as one record has it."""
    columns = (column_values(name, finding.batch, finding.case.timestamp_column) for name in finding.case.virtual)
    nested = any(depth(value) for column in columns for value in column)
    return finding.kind == "index" and (finding.where, finding.theirs) == ("", False) and nested


DIFFERENCES = (
    Difference("file names", _file_names),
    Difference("name of the writer in the catalog", _writer),
    Difference("registration", _registration),
    Difference("special characters in partition values", _special_characters),
    Difference("empty text as a partition value", _empty_text),
    Difference("bytes as a partition value", _bytes),
    Difference("partition values in a batch of several kinds", _own_text),
    Difference("bad records", _bad_records),
    Difference("field names that differ only in case", _case_of_names),
    Difference("fields named `__key` or `_rescued_data`", _our_names),
    Difference("objects of more than 32 levels", _levels),
    Difference("columns without any value", _no_value),
    Difference("lists whose elements nobody has seen", _empty_lists),
    Difference("objects without any value", _empty_objects),
    Difference("types", _types),
    Difference("decimals", _decimals),
    Difference("time of day", _times_of_day),
    Difference("date and time with a zone", _zones),
    Difference("numeric timestamps before 1970", _before_1970),
    Difference("unit of numeric timestamps", _units),
    Difference("years before 1000", _early_years),
    Difference("timestamps as text", _text_stamps),
    Difference("columns with NaN or infinity", _not_finite),
    Difference("order in a file", _order),
    Difference("virtual partitions of objects and lists", _virtual_lists),
)
TITLES = tuple(difference.title for difference in DIFFERENCES)
# Whatever the records, wherever there are files or a catalog.
ALWAYS = frozenset({"file names", "name of the writer in the catalog"})
