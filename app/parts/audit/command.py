"""Compares the offsets in the table's files, and writes the answer as text and as JSON."""

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
from app.parts.commands.tables import find_table, require_table
from app.parts.maintenance.batch_metadata import Part
from app.parts.maintenance.record import listed_as_open
from app.storage.base import ObjectStore
from app.table.layout import is_data_file

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


def audit(settings: Settings, options: Namespace) -> int:
    """Print which offsets the table's files hold; 1 if some are there twice, or may be."""
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
            portions = held.portions(parts) if held else _by_name(parts)
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
        unsettled_files=table.left_out,
        folders_in_compaction=sum(1 for _ in listed_as_open(store, root)),
        other_files=table.others[:most],
        other_files_count=len(table.others),
    )
    print_line(as_json(report) if options.json else as_text(report))
    return 1 if misplaced or any(each.doubled_count or each.unchecked_offsets for each in partitions) else 0


def _files(settings: Settings, catalog: Catalog | None, store: ObjectStore, root: str) -> Iterator[tuple[str, int]]:
    """The files that readers of the table read, by key and size."""
    if not settings.catalog_kind.is_table:
        yield from ((found.key, found.size) for found in store.list(f"{root}/") if is_data_file(found.key, root))
        return
    from app.parts.iceberg.rewrite import Rewrite  # noqa: PLC0415 - loads pyiceberg
    from app.parts.iceberg.table import IcebergTable  # noqa: PLC0415 - loads pyiceberg

    assert isinstance(catalog, IcebergTable)  # noqa: S101 - the settings say so
    yield from ((file.key, file.size) for file in Rewrite(catalog, store, None, 0).files())


def _by_name(parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    """The range that each part names."""
    columns = [[part.first for part in parts], [part.last for part in parts], range(len(parts))]
    yield pa.record_batch(columns, schema=RANGES.append(pa.field("part", pa.int64())))
