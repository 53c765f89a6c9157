"""Which findings about folders and partition values are meant, and why."""

import posixpath
from datetime import UTC, datetime

import pyarrow as pa

from app.convert.time_columns import time_parts
from app.table.layout import TIME_COLUMNS, escape
from app.table.null_folder import QUIX_NULL
from tests.parity.comparing import Finding
from tests.parity.contents import (
    column_values,
    has_failed,
    is_nothing,
    is_number,
    is_own_value,
    is_time_part,
    stamps_of,
    stamps_of_batch,
    values_of,
)

_FIRST_BY_NANOSECONDS, _LAST_BY_NANOSECONDS = datetime(1677, 9, 22, tzinfo=UTC), datetime(2262, 4, 11, tzinfo=UTC)


def special_characters(finding: Finding) -> bool:
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


def empty_object(finding: Finding) -> bool:
    if not is_own_value(finding) or finding.ours != QUIX_NULL:
        return False
    [value] = values_of(finding)
    return isinstance(value, dict) and is_nothing(value) and finding.theirs == str(value)


def empty_text(finding: Finding) -> bool:
    return is_own_value(finding) and (finding.theirs, finding.ours) == ("", QUIX_NULL) and values_of(finding) == [""]


def bytes_as_text(finding: Finding) -> bool:
    if not is_own_value(finding) or not isinstance(finding.theirs, str):
        return False
    [value] = values_of(finding)
    return isinstance(value, bytes) and finding.theirs == str(value) and finding.ours == value.decode()


def own_text(finding: Finding) -> bool:
    """The batch's column as Arrow has it shows the value otherwise than the record itself."""
    if is_time_part(finding):
        kinds = set(map(type, stamps_of_batch(finding)))
        return len(kinds) > 1 and time_parts(stamps_of(finding))[finding.where].to_pylist() == [finding.ours]
    if not is_own_value(finding):
        return False
    column = pa.array(column_values(finding.where, finding.batch, finding.case.timestamp_column))
    place = [record.number for record in finding.batch].index(finding.records[0].number)
    [value] = values_of(finding)
    return bool(finding.theirs == str(column[place].as_py()) and finding.ours == str(value))


def before_1970(finding: Finding) -> bool:
    if not is_time_part(finding):
        return False
    stamps = stamps_of_batch(finding)
    return all(map(is_number, stamps)) and stamps[0] < 0


def units(finding: Finding) -> bool:
    if not is_time_part(finding):
        return False
    stamps = stamps_of_batch(finding)
    return all(map(is_number, stamps)) and _unit(stamps_of(finding)[0]) != _unit(stamps[0])


def _unit(stamp: float) -> int:
    return sum(abs(stamp) > bound for bound in (1e11, 1e14, 1e17))


def early_years(finding: Finding) -> bool:
    return finding.kind == "value" and finding.where == "year" and [finding.ours] == [finding.theirs.zfill(4)]


def text_stamps(finding: Finding) -> bool:
    if not has_failed(finding) or not set(TIME_COLUMNS) & set(finding.case.partitions):
        return False
    stamps = [stamp for stamp in stamps_of(finding) if isinstance(stamp, str)]
    moments = [datetime.fromisoformat(stamp) for stamp in stamps]
    if len({moment.tzinfo is None for moment in moments}) > 1:
        return True
    zoned = [moment.replace(tzinfo=moment.tzinfo or UTC) for moment in moments]
    return any(not _FIRST_BY_NANOSECONDS < moment < _LAST_BY_NANOSECONDS for moment in zoned)
