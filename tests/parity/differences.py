"""All that the connector does otherwise than the dependency's sink, on purpose.

``docs/architecture.md`` has the same list for readers. Each entry says precisely which findings it explains; a finding
that none explains is a fault in the connector, or a difference that was not meant.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.parity import columns, folders
from tests.parity.case import TOPIC
from tests.parity.comparing import Finding
from tests.parity.contents import has_failed


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
        and re.fullmatch(rf"data_{TOPIC}(-\d+_\d{{19}}-\d+|_batch)_[0-9a-f]{{24}}-\d+\.parquet", finding.ours)
        is not None
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


def _bad_records(finding: Finding) -> bool:
    return finding.kind == "rejected" or (has_failed(finding) and bool(finding.ours))


def _registration(finding: Finding) -> bool:
    partitions = {record.partition for record in finding.records}
    return (finding.kind, finding.where) == ("requests", "POST manifest/add-files") and finding.theirs == len(
        partitions
    ) > finding.ours == 1


DIFFERENCES = (
    Difference("file names", _file_names),
    Difference("name of the writer in the catalog", _writer),
    Difference("registration", _registration),
    Difference("special characters in partition values", folders.special_characters),
    Difference("an object without any value as a partition value", folders.empty_object),
    Difference("empty text as a partition value", folders.empty_text),
    Difference("bytes as a partition value", folders.bytes_as_text),
    Difference("partition values in a batch of several kinds", folders.own_text),
    Difference("bad records", _bad_records),
    Difference("field names that differ only in case", columns.case_of_names),
    Difference("fields named `__key` or `_rescued_data`", columns.our_names),
    Difference("objects of more than 32 levels, lists of more than 12", columns.levels),
    Difference("names that are empty, have NUL or more than 255 bytes", columns.names),
    Difference("columns without any value", columns.no_value),
    Difference("lists whose elements nobody has seen", columns.empty_lists),
    Difference("objects without any value", columns.empty_objects),
    Difference("types", columns.types),
    Difference("decimals", columns.decimals),
    Difference("time of day", columns.times_of_day),
    Difference("date and time with a zone", columns.zones),
    Difference("numeric timestamps before 1970", folders.before_1970),
    Difference("unit of numeric timestamps", folders.units),
    Difference("years before 1000", folders.early_years),
    Difference("timestamps as text", folders.text_stamps),
    Difference("columns with NaN or infinity", columns.not_finite),
    Difference("order in a file", columns.order),
    Difference("virtual partitions of objects and lists", columns.virtual_lists),
)
TITLES = tuple(difference.title for difference in DIFFERENCES)
# Whatever the records, wherever there are files or a catalog.
ALWAYS = frozenset({"file names", "name of the writer in the catalog"})
