"""Writes the answer of ``audit``, as text and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.commands.audit.offset_ranges import Range
from app.commands.audit.offsets import Findings, Listing
from app.formatting import counted
from app.model import BatchPart

_LEFT = 2  # columns


class Misplaced(NamedTuple):
    """A file with offsets outside those of its name: the first range of them, and how many there are in all."""

    key: str
    first: Range
    offsets: int


@dataclass(slots=True)
class Report:
    """The findings for a table; ``foreign`` are keys of Parquet files that do not say which offsets they hold."""

    table: str
    by_column: bool
    foreign: Listing[str]
    misplaced: Listing[Misplaced]
    files: int = 0
    partitions: list[Findings] = field(default_factory=list)
    without_offsets: int = 0
    unfinished_count: int = 0

    @property
    def has_doubled(self) -> bool:
        """Whether rows are, or may be, there twice."""
        return self.misplaced.count > 0 or any(partition.doubled.count for partition in self.partitions)


def as_json(report: Report) -> str:
    """One JSON object; offsets are numbers, and ranges include both of their ends."""
    answer = {
        "table": report.table,
        "by": "column" if report.by_column else "name",
        "partitions": [_partition(findings) for findings in report.partitions],
        "misplaced": [{"file": each.key, **_range(each.first), "offsets": each.offsets} for each in report.misplaced],
        "misplaced_count": report.misplaced.count,
        "files_without_offsets": report.without_offsets,
        "unsettled_files": report.unfinished_count,
        "other_files": list(report.foreign),
        "other_files_count": report.foreign.count,
    }
    return json.dumps(answer, indent=2)


def _partition(findings: Findings) -> dict[str, Any]:
    return {
        "topic": findings.tp.topic,
        "partition": findings.tp.partition,
        **_range(findings.offsets),
        "files": findings.files,
        "batches": findings.batches,
        "doubled": [
            {**_range(each.offsets), "batches": [_batch(each.one), _batch(each.other)]} for each in findings.doubled
        ],
        "doubled_count": findings.doubled.count,
        "doubled_offsets": findings.doubled_offsets,
        "missing": [{**_range(each.offsets), "dead_letters": each.dead_letters} for each in findings.missing],
        "missing_count": findings.missing.count,
        "missing_offsets": findings.missing_offsets,
        "missing_dead_letters": findings.dead_letters,
    }


def _range(offsets: Range) -> dict[str, int]:
    return {"first": offsets.first, "last": offsets.last}


def _batch(part: BatchPart) -> str:
    """The end of the names of a batch's files, before ``.parquet``."""
    return f"{part.owner}-{part.number}"


def as_text(report: Report) -> str:
    """Lines of aligned columns; empty sections are left out."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    how = "by the offsets in them" if report.by_column else "by their names"
    yield f"{report.table}: {counted(report.files, 'file')}, {how}"
    if report.partitions:
        yield ""
        yield from _overview(report.partitions)
    yield from _doubled(report)
    yield from _misplaced(report)
    yield from _missing(report.partitions)
    if report.without_offsets:
        yield ""
        yield f"{counted(report.without_offsets, 'file')} without __offset: all offsets of their batches count as held."
        yield "A file of several partitions needs __partition too."
    if report.unfinished_count:
        yield ""
        yield f"{counted(report.unfinished_count, 'file')} left out: of batches that the connector is at,"
        yield "or will finish or delete when it starts."
    if report.foreign.count:
        yield ""
        yield f"{counted(report.foreign.count, 'other Parquet file')}, which do not say the offsets in them:"
        yield from (f"  {key}" for key in report.foreign)
        yield from _rest(report.foreign.rest)


def _overview(partitions: Sequence[Findings]) -> Iterator[str]:
    rows = [
        (
            str(findings.tp),
            _offsets(findings.offsets),
            *(
                f"{count:,}"
                for count in (findings.files, findings.batches, findings.doubled_offsets, findings.missing_offsets)
            ),
        )
        for findings in partitions
    ]
    return _aligned([("", "offsets", "files", "batches", "doubled", "missing"), *rows])


def _doubled(report: Report) -> Iterator[str]:
    rows = [
        (f"  {findings.tp}", _offsets(each.offsets), f"{each.offsets.size:,}", _batch(each.one), _batch(each.other))
        for findings in report.partitions
        for each in findings.doubled
    ]
    count = sum(findings.doubled.count for findings in report.partitions)
    if not count:
        return
    yield ""
    if report.by_column:
        yield "Doubled: two batches hold these offsets. The files of one, *_<batch>.parquet, can be deleted if others"
        yield "hold all of its offsets: one batch at a time, from the catalog too, with an audit after each."
        yield "Keep both if the topic was recreated in between: they hold other records."
    else:
        yield "Doubled, perhaps: the names of two batches, *_<batch>.parquet, say that both hold these offsets."
        yield "If the files have the column __offset (METADATA_COLUMNS), audit --offsets checks it exactly."
    yield from _aligned([("", "offsets", "count", "batch", "batch"), *rows])
    yield from _rest(count - len(rows))


def _misplaced(report: Report) -> Iterator[str]:
    if not report.misplaced.count:
        return
    yield ""
    yield "Files with offsets that are not those of their names, copied or renamed: rows may be doubled. Delete copies."
    for each in report.misplaced:
        yield f"  {_offsets(each.first)}{_more(each)} in {each.key}"
    yield from _rest(report.misplaced.rest)


def _more(each: Misplaced) -> str:
    more = each.offsets - each.first.size
    return f" and {more:,} more" if more else ""


def _missing(partitions: Sequence[Findings]) -> Iterator[str]:
    rows = [
        (f"  {findings.tp}", _offsets(each.offsets), f"{each.offsets.size:,}", f"{each.dead_letters:,}")
        for findings in partitions
        for each in findings.missing
    ]
    count = sum(findings.missing.count for findings in partitions)
    if not count:
        return
    offsets = sum(findings.missing_offsets for findings in partitions)
    dead_letters = sum(findings.dead_letters for findings in partitions)
    yield ""
    yield f"Missing: {counted(offsets, 'offset')}, {dead_letters:,} of them in the dead letter. Gaps come, too, from"
    yield "records that transform() drops, and from transactions and compaction of the topic."
    yield from _aligned([("", "offsets", "count", "dead letter"), *rows])
    yield from _rest(count - len(rows))


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Topic-partition and offsets to the left, all else to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if index < _LEFT else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells)


def _rest(count: int) -> Iterator[str]:
    if count:
        yield f"  … and {count:,} more: --most N lists more of them"


def _offsets(offsets: Range) -> str:
    return str(offsets.first) if offsets.size == 1 else f"{offsets.first}-{offsets.last}"
