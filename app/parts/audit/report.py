"""Writes the answer of ``audit``, as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from app.formatting import counted
from app.parts.audit.findings import Doubled, Findings, Misplaced, Missing

_LEFT = 2  # columns
_UNCHECKED = "So audit cannot check whether {} of theirs are in other batches too. Delete none of these files."


@dataclass(frozen=True, slots=True)
class Report:
    """The answer, with the names that it has in JSON. Of each kind the first findings are listed, and all counted.

    ``by`` is ``column`` or ``name``; ``folders_in_compaction`` are those that ``compact`` or ``erase`` is at, or was.
    """

    table: str
    by: str
    files: int
    partitions: Sequence[Findings]
    misplaced: Sequence[Misplaced]
    misplaced_count: int
    files_without_offsets: int
    unsettled_files: int
    folders_in_compaction: int
    other_files: Sequence[str]
    other_files_count: int


def as_json(report: Report) -> str:
    """One JSON object; offsets are numbers, and ranges include both of their ends."""
    return json.dumps(asdict(report), indent=2)


def as_text(report: Report) -> str:
    """Sections of lines, with aligned columns; empty ones are left out."""
    unchecked = sum(each.unchecked_offsets for each in report.partitions)
    how = "by the offsets in them" if report.by == "column" else "by their names"
    sections = [
        [f"{report.table}: {counted(report.files, 'file')}, {how}"],
        _overview(report.partitions),
        _doubled(report),
        _misplaced(report),
        _missing(report.partitions),
        _counted(
            report.files_without_offsets,
            "file",
            " without __offset, or merged: all offsets of their batches count as held.",
            "A file of several partitions needs __partition too.",
            *([_UNCHECKED.format(counted(unchecked, "offset"))] if unchecked else ()),
        ),
        _counted(
            report.unsettled_files,
            "file",
            " left out: of batches that the connector is at,",
            "or will finish or delete when it starts.",
        ),
        _counted(
            report.folders_in_compaction,
            "folder",
            " that compact or erase is at, or was when it was cut off:",
            "rows may be there twice until its next run.",
        ),
        _counted(
            report.other_files_count,
            "other Parquet file",
            ", which do not say the offsets in them (so these may be among the missing):",
            *(f"  {path}" for path in report.other_files),
            *_rest(report.other_files_count - len(report.other_files)),
        ),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _counted(count: int, noun: str, rest: str, *lines: str) -> list[str]:
    return [f"{counted(count, noun)}{rest}", *lines] if count else []


def _overview(partitions: Sequence[Findings]) -> list[str]:
    rows = [
        (
            str(each.tp),
            _offsets(each),
            *map("{:,}".format, (each.files, each.batches, each.doubled_offsets, each.missing_offsets)),
        )
        for each in partitions
    ]
    return _aligned([("", "offsets", "files", "batches", "doubled", "missing"), *rows]) if rows else []


def _doubled(report: Report) -> list[str]:
    found = [(each.tp, doubled) for each in report.partitions for doubled in each.doubled]
    said = [
        "Doubled, perhaps: the names of two batches, *_<batch>.parquet, say that both hold these offsets.",
        "If the files have the column __offset (METADATA_COLUMNS), audit --offsets checks it exactly.",
    ]
    if report.by == "column":
        said = [
            "Doubled: two batches hold these offsets. The files of one, *_<batch>.parquet, can be deleted if others",
            "hold all of its offsets: one batch at a time, from the catalog too, with an audit after each.",
            "Keep both if the topic was recreated in between: they hold other records.",
        ]
    rows = [(f"  {tp}", _offsets(each), _size(each), *each.batches) for tp, each in found]
    return _listed(
        said, ("", "offsets", "count", "batch", "batch"), rows, sum(each.doubled_count for each in report.partitions)
    )


def _misplaced(report: Report) -> list[str]:
    if not report.misplaced_count:
        return []
    lines = [
        "Files with offsets that are not those of their names, copied or renamed: rows may be doubled. Delete copies."
    ]
    for each in report.misplaced:
        more = each.offsets - (each.last - each.first + 1)
        lines.append(f"  {_offsets(each)}{f' and {more:,} more' if more else ''} in {each.file}")
    return lines + _rest(report.misplaced_count - len(report.misplaced))


def _missing(partitions: Sequence[Findings]) -> list[str]:
    offsets = counted(sum(each.missing_offsets for each in partitions), "offset")
    said = [
        f"Missing: {offsets}, {sum(each.missing_dead_letters for each in partitions):,} of them in the dead letter. "
        "Gaps come, too, from",
        "records that transform() drops, and from transactions and compaction of the topic.",
    ]
    rows = [
        (f"  {each.tp}", _offsets(gap), _size(gap), f"{gap.dead_letters:,}")
        for each in partitions
        for gap in each.missing
    ]
    count = sum(each.missing_count for each in partitions)
    return _listed(said, ("", "offsets", "count", "dead letter"), rows, count)


def _listed(said: list[str], head: tuple[str, ...], rows: Sequence[tuple[str, ...]], count: int) -> list[str]:
    return [*said, *_aligned([head, *rows]), *_rest(count - len(rows))] if count else []


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
