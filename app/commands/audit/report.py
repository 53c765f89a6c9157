"""Writes the answer of ``audit``, as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from app.commands.audit.batches import TableFiles
from app.commands.audit.findings import Doubled, Findings, Listing, Missing
from app.commands.audit.held_offsets import Misplaced
from app.formatting import counted

_LEFT = 2  # columns


@dataclass(slots=True)
class Report:
    """The findings for a table; ``under_way`` is the number of folders that ``compact`` or ``erase`` is at, or was."""

    uri: str
    by_column: bool
    table: TableFiles
    under_way: int
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
        "table": report.uri,
        "by": "column" if report.by_column else "name",
        "partitions": [_partition(findings) for findings in report.partitions],
        "misplaced": [{"file": each.key, **_range(each), "offsets": each.offsets} for each in report.misplaced.kept],
        "misplaced_count": report.misplaced.count,
        "files_without_offsets": report.without_offsets,
        "unsettled_files": report.table.left_out,
        "folders_in_compaction": report.under_way,
        "other_files": report.table.others.kept,
        "other_files_count": report.table.others.count,
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


def _batch(findings: Findings, row: int, merged: str = "") -> str:
    """The end of the names of a batch's files, before ``.parquet``; then ``merged``, if it is merged with others."""
    owner, number, is_merged = (findings.batches[name][row].as_py() for name in ("owner", "number", "merged"))
    return f"{owner}-{number}{merged if is_merged else ''}"


def as_text(report: Report) -> str:
    """Sections of lines, with aligned columns; empty ones are left out."""
    how = "by the offsets in them" if report.by_column else "by their names"
    sections = [
        [f"{report.uri}: {counted(report.table.files.num_rows + report.table.merged, 'file')}, {how}"],
        _overview(report.partitions),
        _doubled(report),
        _misplaced(report.misplaced),
        _missing(report.partitions),
        _counted(
            report.without_offsets,
            "file",
            " without __offset, or merged: all offsets of their batches count as held.",
            "A file of several partitions needs __partition too.",
        ),
        _counted(
            report.table.left_out,
            "file",
            " left out: of batches that the connector is at,",
            "or will finish or delete when it starts.",
        ),
        _counted(
            report.under_way,
            "folder",
            " that compact or erase is at, or was when it was cut off:",
            "rows may be there twice until its next run.",
        ),
        _counted(
            report.table.others.count,
            "other Parquet file",
            ", which do not say the offsets in them:",
            *(f"  {key}" for key in report.table.others.kept),
            *_rest(report.table.others.count - len(report.table.others.kept)),
        ),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _counted(count: int, noun: str, rest: str, *lines: str) -> list[str]:
    return [f"{counted(count, noun)}{rest}", *lines] if count else []


def _overview(partitions: Sequence[Findings]) -> list[str]:
    rows: list[tuple[str, ...]] = []
    if partitions:
        rows.append(("", "offsets", "files", "batches", "doubled", "missing"))
    for each in partitions:
        counts = (_files(each), each.batches.num_rows, each.doubled_offsets, each.missing_offsets)
        rows.append((str(each.tp), _offsets(each), *(f"{count:,}" for count in counts)))
    return _aligned(rows)


def _doubled(report: Report) -> list[str]:
    rows = [
        (f"  {each.tp}", _offsets(found), _size(found), *(_batch(each, row, "*") for row in (found.one, found.other)))
        for each in report.partitions
        for found in each.doubled.kept
    ]
    count = sum(findings.doubled.count for findings in report.partitions)
    if not count:
        return []
    if report.by_column:
        said = [
            "Doubled: two batches hold these offsets. The files of one, *_<batch>.parquet, can be deleted if others",
            "hold all of its offsets: one batch at a time, from the catalog too, with an audit after each.",
            "Keep both if the topic was recreated in between: they hold other records.",
        ]
        if any(name.endswith("*") for row in rows for name in row[-2:]):
            said += [
                "A batch with a * is merged with others, and counts with all of its offsets: perhaps nothing is",
                "doubled there. Delete no file then, but look for rows with the same __offset.",
            ]
    else:
        said = [
            "Doubled, perhaps: the names of two batches, *_<batch>.parquet, say that both hold these offsets.",
            "If the files have the column __offset (METADATA_COLUMNS), audit --offsets checks it exactly.",
        ]
    return [*said, *_aligned([("", "offsets", "count", "batch", "batch"), *rows]), *_rest(count - len(rows))]


def _misplaced(found: Listing[Misplaced]) -> list[str]:
    if not found.count:
        return []
    lines = [
        "Files with offsets that are not those of their names, copied or renamed: rows may be doubled. Delete copies."
    ]
    for each in found.kept:
        more = each.offsets - (each.last - each.first + 1)
        lines.append(f"  {_offsets(each)}{f' and {more:,} more' if more else ''} in {each.key}")
    return lines + _rest(found.count - len(found.kept))


def _missing(partitions: Sequence[Findings]) -> list[str]:
    rows = [
        (f"  {findings.tp}", _offsets(each), _size(each), f"{each.dead_letters:,}")
        for findings in partitions
        for each in findings.missing.kept
    ]
    count = sum(findings.missing.count for findings in partitions)
    if not count:
        return []
    offsets = counted(sum(findings.missing_offsets for findings in partitions), "offset")
    dead_letters = sum(findings.dead_letters for findings in partitions)
    return [
        f"Missing: {offsets}, {dead_letters:,} of them in the dead letter. Gaps come, too, from",
        "records that transform() drops, and from transactions and compaction of the topic.",
        *_aligned([("", "offsets", "count", "dead letter"), *rows]),
        *_rest(count - len(rows)),
    ]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Topic-partition and offsets to the left, all else to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<"] * _LEFT + [">"] * len(widths)
    return ["  ".join(map("{:{}{}}".format, row, sides, widths)) for row in rows]


def _rest(count: int) -> list[str]:
    return [f"  … and {count:,} more: --most N lists more of them"] if count else []


def _offsets(found: Findings | Doubled | Missing | Misplaced) -> str:
    return str(found.first) if found.first == found.last else f"{found.first}-{found.last}"


def _size(found: Doubled | Missing) -> str:
    return f"{found.last - found.first + 1:,}"
