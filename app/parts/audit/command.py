from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from tempfile import TemporaryFile

import pyarrow as pa

from app.config.settings import Settings
from app.parts.audit.files import list_table
from app.parts.audit.findings import find
from app.parts.audit.offsets import DeadLetter, HeldOffsets
from app.parts.audit.ranges import RANGES
from app.parts.audit.report import Report, as_json, as_text
from app.parts.commands import print_line
from app.parts.commands.tables import find_table, require_table
from app.parts.maintenance.batches_in_files import Part
from app.parts.maintenance.record import listed_as_open
from app.service.lake import new_catalog
from app.storage.base import ObjectStore
from app.table.layout import is_data_file


def audit(settings: Settings, options: Namespace) -> int:
    """Print which offsets the table's files hold; 1 if some are there twice, or may be."""
    store, location = find_table(settings)
    require_table(store, location)
    root, workers, most = location.root, settings.max_write_workers, max(0, options.most)
    table = list_table(store, root, _files(settings, store, root), workers)
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


def _files(settings: Settings, store: ObjectStore, root: str) -> Iterator[tuple[str, int]]:
    """The files that readers of the table read, by key and size."""
    if not settings.catalog_kind.is_table:
        yield from ((found.key, found.size) for found in store.list(f"{root}/") if is_data_file(found.key, root))
        return
    from app.parts.iceberg.rewrite import Rewrite  # noqa: PLC0415 - loads pyiceberg
    from app.parts.iceberg.table import IcebergTable  # noqa: PLC0415 - loads pyiceberg

    catalog = new_catalog(settings, store)
    assert isinstance(catalog, IcebergTable)  # noqa: S101 - the settings say so
    yield from ((file.key, file.size) for file in Rewrite(catalog, store, None, 0).files())


def _by_name(parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    """The range that each part names."""
    columns = [[part.first for part in parts], [part.last for part in parts], range(len(parts))]
    yield pa.record_batch(columns, schema=RANGES.append(pa.field("part", pa.int64())))
