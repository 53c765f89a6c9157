"""Writes the answer of ``audit``, as text and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from app.commands.audit.findings import Doubled, Findings, Listing, Missing
from app.commands.audit.held_offsets import Misplaced
from app.formatting import counted

_LEFT = 2  # columns


@dataclass(slots=True)
class Report:
    """The findings for a table.

    ``others`` are keys of Parquet files that do not say which offsets they hold, ``under_way`` is the number of folders
    that ``compact`` or ``erase`` is at, or was.
    """

    table: str
    by_column: bool
    files: int
    left_out: int
    under_way: int
    others: Listing[str]
    misplaced: Listing[Misplaced]
    without_offsets: int = 0
    partitions: list[Findings] = field(default_factory=list)

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
        "misplaced": [{"file": each.key, **_range(each), "offsets": each.offsets} for each in report.misplaced.kept],
        "misplaced_count": report.misplaced.count,
        "files_without_offsets": report.without_offsets,
        "unsettled_files": report.left_out,
        "folders_in_compaction": report.under_way,
        "other_files": report.others.kept,
        "other_files_count": report.others.count,
    }
    return json.dumps(answer, indent=2)


def _partition(findings: Findings) -> dict[str, Any]:
    return {
        "topic": findings.tp.topic,
        "partition": findings.tp.partition,
        **_range(findings),
        "files": _files(findings),
        "batches": findings.batches.num_rows,
        "doubled": [
            {**_range(each), "batches": [_batch(findings, each.one), _batch(findings, each.other)]}
            for each in findings.doubled.kept
        ],
        "doubled_count": findings.doubled.count,
        "doubled_offsets": findings.doubled_offsets,
        "missing": [{**_range(each), "dead_letters": each.dead_letters} for each in findings.missing.kept],
        "missing_count": findings.missing.count,
        "missing_offsets": findings.missing_offsets,
        "missing_dead_letters": findings.dead_letters,
    }


def _range(found: Findings | Doubled | Missing | Misplaced) -> dict[str, int]:
    return {"first": found.first, "last": found.last}


def _files(findings: Findings) -> int:
    return int(pc.sum(findings.batches["files"]).as_py())


def _batch(findings: Findings, row: int) -> str:
    """The end of the names of a batch's files, before ``.parquet``."""
    owner, number = (findings.batches[name][row].as_py() for name in ("owner", "number"))
    return f"{owner}-{number}"


def _is_merged(findings: Findings, row: int) -> bool:
    return bool(findings.batches["merged"][row].as_py())


def _marked(findings: Findings, row: int) -> str:
    return _batch(findings, row) + ("*" if _is_merged(findings, row) else "")


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
        files = counted(report.without_offsets, "file")
        yield f"{files} without __offset, or merged: all offsets of their batches count as held."
        yield "A file of several partitions needs __partition too."
    if report.left_out:
        yield ""
        yield f"{counted(report.left_out, 'file')} left out: of batches that the connector is at,"
        yield "or will finish or delete when it starts."
    if report.under_way:
        yield ""
        yield f"{counted(report.under_way, 'folder')} that compact or erase is at, or was when it was cut off:"
        yield "rows may be there twice until its next run."
    if report.others.count:
        yield ""
        yield f"{counted(report.others.count, 'other Parquet file')}, which do not say the offsets in them:"
        yield from (f"  {key}" for key in report.others.kept)
        yield from _rest(report.others.rest)


def _overview(partitions: Sequence[Findings]) -> Iterator[str]:
    rows = []
    for each in partitions:
        counts = (_files(each), each.batches.num_rows, each.doubled_offsets, each.missing_offsets)
        rows.append((str(each.tp), _offsets(each), *(f"{count:,}" for count in counts)))
    return _aligned([("", "offsets", "files", "batches", "doubled", "missing"), *rows])


def _doubled(report: Report) -> Iterator[str]:
    rows = [
        (f"  {findings.tp}", _offsets(each), _size(each), _marked(findings, each.one), _marked(findings, each.other))
        for findings in report.partitions
        for each in findings.doubled.kept
    ]
    count = sum(findings.doubled.count for findings in report.partitions)
    if not count:
        return
    yield ""
    if report.by_column:
        yield "Doubled: two batches hold these offsets. The files of one, *_<batch>.parquet, can be deleted if others"
        yield "hold all of its offsets: one batch at a time, from the catalog too, with an audit after each."
        yield "Keep both if the topic was recreated in between: they hold other records."
        if any(
            _is_merged(findings, row)
            for findings in report.partitions
            for each in findings.doubled.kept
            for row in each[2:]
        ):
            yield "A batch with a * is merged with others, and counts with all of its offsets: perhaps nothing is"
            yield "doubled there. Delete no file then, but look for rows with the same __offset."
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
    for each in report.misplaced.kept:
        yield f"  {_offsets(each)}{_more(each)} in {each.key}"
    yield from _rest(report.misplaced.rest)


def _more(each: Misplaced) -> str:
    more = each.offsets - (each.last - each.first + 1)
    return f" and {more:,} more" if more else ""


def _missing(partitions: Sequence[Findings]) -> Iterator[str]:
    rows = [
        (f"  {findings.tp}", _offsets(each), _size(each), f"{each.dead_letters:,}")
        for findings in partitions
        for each in findings.missing.kept
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


def _offsets(found: Findings | Doubled | Missing | Misplaced) -> str:
    return str(found.first) if found.first == found.last else f"{found.first}-{found.last}"


def _size(found: Doubled | Missing) -> str:
    return f"{found.last - found.first + 1:,}"
