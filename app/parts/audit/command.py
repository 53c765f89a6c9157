"""Compares the offsets in the table's files, and prints a report as text or JSON."""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from tempfile import TemporaryFile

import pyarrow as pa

from app.catalog.base import Catalog
from app.config.settings import Settings
from app.formatting import counted
from app.parts.audit.files import list_table
from app.parts.audit.findings import RANGES, Doubled, Findings, Misplaced, Missing, find
from app.parts.audit.offsets import DeadLetter, HeldOffsets
from app.parts.commands import print_line
from app.parts.commands.find_tables import find_table, require_table
from app.parts.maintenance.batch_metadata import Part
from app.parts.maintenance.record import listed_as_open
from app.storage.base import ObjectStore
from app.table.layout import is_data_file

_LEFT = 2  # number of columns that are aligned to the left
_UNCHECKED = "audit cannot check whether other batches contain {} of these files too. Delete none of these files."


@dataclass(frozen=True, slots=True)
class Report:
    """The report. Its fields are the names in the JSON object. Lists contain only the first findings.

    ``by`` is ``column`` or ``name``. ``folders_in_compaction`` counts folders where ``compact`` or ``erase`` runs.
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
    """Return the report as JSON. Offsets are numbers, and a range includes its first and last offset."""
    return json.dumps(asdict(report), indent=2)


def as_text(report: Report) -> str:
    unchecked = sum(each.unchecked_offsets for each in report.partitions)
    how = "by the offsets in them" if report.by == "column" else "by their names"
    sections = [
        [f"{report.table}: {counted(report.files, 'file')}, {how}"],
        _partitions(report.partitions),
        _doubled(report),
        _misplaced(report),
        _missing(report.partitions),
        _counted(
            report.files_without_offsets,
            "file",
            " merged or without __offset: audit assumes that they contain all offsets of their batches.",
            "A file of several partitions needs __partition too.",
            *([_UNCHECKED.format(counted(unchecked, "offset"))] if unchecked else ()),
        ),
        _counted(
            report.unsettled_files,
            "file",
            " skipped: their batches are in progress, or the next start of the connector",
            "completes them or rolls them back.",
        ),
        _counted(
            report.folders_in_compaction,
            "folder",
            " in which compact or erase runs, or was interrupted:",
            "rows may be there twice until its next run.",
        ),
        _counted(
            report.other_files_count,
            "other Parquet file",
            " with unknown offsets, which may be among the missing ones:",
            *(f"  {path}" for path in report.other_files),
            *_more(report.other_files_count - len(report.other_files)),
        ),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _counted(count: int, noun: str, rest: str, *lines: str) -> list[str]:
    return [f"{counted(count, noun)}{rest}", *lines] if count else []


def _partitions(partitions: Sequence[Findings]) -> list[str]:
    rows = []
    for findings in partitions:
        counts = (findings.files, findings.batches, findings.doubled_offsets, findings.missing_offsets)
        rows.append((str(findings.tp), _offsets(findings), *map("{:,}".format, counts)))
    return _aligned([("", "offsets", "files", "batches", "duplicate", "missing"), *rows]) if rows else []


def _doubled(report: Report) -> list[str]:
    rows = [
        (f"  {findings.tp}", _offsets(doubled), _size(doubled), *doubled.batches)
        for findings in report.partitions
        for doubled in findings.doubled
    ]
    text = [
        "Possible duplicates: by their file names, *_<batch>.parquet, two batches contain these offsets.",
        "If the files have the column __offset (METADATA_COLUMNS), audit --offsets checks them exactly.",
    ]
    if report.by == "column":
        text = [
            "Duplicates: two batches contain these offsets. If other batches contain all offsets of a batch, you can",
            "delete its files, *_<batch>.parquet, also from the catalog. Delete one batch, then run audit again.",
            "Keep both batches if the topic was recreated in between: they contain different records.",
        ]
    count = sum(each.doubled_count for each in report.partitions)
    return _listed(text, ("", "offsets", "count", "batch", "batch"), rows, count)


def _misplaced(report: Report) -> list[str]:
    if not report.misplaced_count:
        return []
    lines = ["Copied or renamed files, with other offsets than in their names: rows may be duplicates. Delete copies."]
    for file in report.misplaced:
        more = file.offsets - (file.last - file.first + 1)
        lines.append(f"  {_offsets(file)}{f' and {more:,} more' if more else ''} in {file.file}")
    return lines + _more(report.misplaced_count - len(report.misplaced))


def _missing(partitions: Sequence[Findings]) -> list[str]:
    offsets = counted(sum(each.missing_offsets for each in partitions), "offset")
    text = [
        f"Missing: {offsets}, {sum(each.missing_dead_letters for each in partitions):,} of them in the dead letter. "
        "Other causes are records",
        "that transform() drops, and transactions and compaction of the topic.",
    ]
    rows = [
        (f"  {findings.tp}", _offsets(gap), _size(gap), f"{gap.dead_letters:,}")
        for findings in partitions
        for gap in findings.missing
    ]
    count = sum(each.missing_count for each in partitions)
    return _listed(text, ("", "offsets", "count", "dead letter"), rows, count)


def _listed(text: list[str], head: tuple[str, ...], rows: Sequence[tuple[str, ...]], count: int) -> list[str]:
    return [*text, *_aligned([head, *rows]), *_more(count - len(rows))] if count else []


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the rows as lines. Topic-partitions and offsets are aligned to the left, other columns to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<"] * _LEFT + [">"] * len(widths)
    return ["  ".join(map("{:{}{}}".format, row, sides, widths)) for row in rows]


def _more(count: int) -> list[str]:
    return [f"  … and {count:,} more: --most N lists more of them"] if count else []


def _offsets(offsets: Findings | Doubled | Missing | Misplaced) -> str:
    return str(offsets.first) if offsets.first == offsets.last else f"{offsets.first}-{offsets.last}"


def _size(offsets: Doubled | Missing) -> str:
    return f"{offsets.last - offsets.first + 1:,}"


def audit(settings: Settings, options: Namespace) -> int:
    """Print the offsets in the table's files. Return 1 if the table contains duplicates or possible duplicates."""
    store, location, _, catalog = find_table(settings)
    require_table(store, location)
    root, workers, most = location.root, settings.max_write_workers, max(0, options.most)
    table = list_table(store, root, _files(settings, catalog, store, root), workers)
    dead_letter = DeadLetter(store, root, workers)
    with TemporaryFile() as file:
        held = HeldOffsets(file, store, workers, table) if options.offsets else None
        partitions = []
        for tp, group in groupby(sorted(table.files), itemgetter(0, 1)):
            parts = list(group)
            portions = held.portions(parts) if held else [_ranges_in_names(parts)]
            partitions.append(find(table, parts, portions, partial(dead_letter.count, tp), most))
    misplaced = held.misplaced if held else []
    report = Report(
        table=location.uri,
        by="column" if held else "name",
        files=sum(map(len, table.names.values())) + table.merged_files,
        partitions=partitions,
        misplaced=misplaced[:most],
        misplaced_count=len(misplaced),
        files_without_offsets=held.without_offsets if held else 0,
        unsettled_files=table.skipped,
        folders_in_compaction=sum(1 for _ in listed_as_open(store, root)),
        other_files=table.others[:most],
        other_files_count=len(table.others),
    )
    print_line(as_json(report) if options.json else as_text(report))
    return 1 if misplaced or any(each.doubled_count or each.unchecked_offsets for each in partitions) else 0


def _files(settings: Settings, catalog: Catalog | None, store: ObjectStore, root: str) -> Iterator[tuple[str, int]]:
    """Yield the object key and the size of each file that engines read."""
    if not settings.catalog_kind.is_table:
        yield from ((each.key, each.size) for each in store.list(f"{root}/") if is_data_file(each.key, root))
        return
    from app.parts.iceberg.rewrite import Rewrite  # noqa: PLC0415 - loads pyiceberg
    from app.parts.iceberg.table import IcebergTable  # noqa: PLC0415 - loads pyiceberg

    assert isinstance(catalog, IcebergTable)  # noqa: S101 - the settings say so
    yield from ((file.key, file.size) for file in Rewrite(catalog, store, None, 0).files())


def _ranges_in_names(parts: Sequence[Part]) -> pa.RecordBatch:
    columns = [[part.first for part in parts], [part.last for part in parts], range(len(parts))]
    return pa.record_batch(columns, schema=RANGES.append(pa.field("part", pa.int64())))
