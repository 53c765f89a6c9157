"""``python main.py audit``: shows which offsets are in the table, which are there twice, which are missing."""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.audit.batches import list_table, rows_of
from app.commands.audit.dead_letters import count_rejected, list_dead_letter
from app.commands.audit.findings import Listing, find
from app.commands.audit.held_offsets import HeldOffsets
from app.commands.audit.report import Report, as_json, as_text
from app.commands.batches_in_files import PARTS
from app.commands.compact.record import listed_as_open
from app.commands.output import print_line
from app.config.settings import Settings
from app.model import TopicPartition
from app.service.lake import find_table, require_table


def audit(settings: Settings, options: Namespace) -> int:
    """Print which offsets the table's files hold; 1 if some are there twice, or may be."""
    store, location = find_table(settings)
    require_table(store, location)
    if settings.is_iceberg:
        from app.commands.audit.iceberg import refuse_merged  # noqa: PLC0415 - loads pyiceberg

        refuse_merged(settings, store)
    root, workers, most = location.root, settings.max_write_workers, options.most
    table = list_table(store, root, workers, most, with_keys=options.offsets)
    rejected = list_dead_letter(store, root)
    under_way = sum(1 for _ in listed_as_open(store, root))
    report = Report(location.uri, options.offsets, table, under_way, Listing(most))
    with TemporaryFile() as file:
        batches, portions = table.batches, _by_name
        if options.offsets:
            held = HeldOffsets(file, store, root, workers, most)
            batches, portions = held.read(table.files, batches), held.portions
            report.misplaced, report.without_offsets = held.misplaced, held.without_offsets + table.merged
        for tp, of_partition in _by_partition(batches):
            of_rejected = rejected.filter((pc.field("topic") == tp.topic) & (pc.field("partition") == tp.partition))
            count = partial(count_rejected, store, workers, of_rejected)
            report.partitions.append(find(tp, of_partition, portions(of_partition), count, most))
    print_line(as_json(report) if options.json else as_text(report))
    return 1 if report.has_doubled else 0


def _by_partition(batches: pa.Table) -> Iterator[tuple[TopicPartition, pa.Table]]:
    """Yield the batches of each topic-partition, sorted by their first offsets."""
    ordered = batches.sort_by([(name, "ascending") for name in PARTS.names])
    of_partition = ["topic", "partition"]
    counts = ordered.group_by(of_partition).aggregate([([], "count_all")])
    # Arrow returns groups in the order of its hash table.
    counts = counts.sort_by([(name, "ascending") for name in of_partition])
    begin = 0
    for topic, partition, count in rows_of(counts):
        yield TopicPartition(topic, partition), ordered.slice(begin, count)
        begin += count


def _by_name(batches: pa.Table) -> Iterator[pa.RecordBatch]:
    """The range that each batch names, with the row of the batch."""
    numbered = batches.select(["first", "last"]).append_column("batch", pa.array(range(batches.num_rows), pa.int64()))
    yield from numbered.combine_chunks().to_batches()
