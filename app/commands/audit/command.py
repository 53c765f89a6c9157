"""``python main.py audit``: shows which offsets are in the table, which are there twice, which are missing."""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain

from app.commands.audit.file_ledger import FileLedger, ListedFile
from app.commands.audit.offset_ranges import Range, ranges_of
from app.commands.audit.offset_reader import OffsetReader, read_offsets
from app.commands.audit.offsets import DeadLetters, Findings, HeldBatch, Listing, PartitionAudit
from app.commands.audit.report import Report, as_json, as_text
from app.commands.audit.shared_files import SharedFiles
from app.commands.existing_table import require_table
from app.commands.output import print_line
from app.config.settings import Settings
from app.journal.survey import survey
from app.model import TopicPartition
from app.service.lake import find_table
from app.storage.base import ObjectStore
from app.table.layout import dead_letter_root, is_data_file, part_of, shared_file_of


def audit(settings: Settings, options: Namespace) -> int:
    """Print which offsets the table's files hold.

    Returns:
        1 if offsets are there twice, or may be, else 0.

    Raises:
        ConfigError: there is no such table.
        ConnectorError: the store fails, or a file cannot be read.
    """
    store, location = find_table(settings)
    require_table(store, location)
    root = location.root
    with ExitStack() as ends:
        found = ends.enter_context(closing(FileLedger(with_keys=options.offsets)))
        rejected = ends.enter_context(closing(FileLedger(with_keys=True)))
        report = Report(
            location.uri, by_column=options.offsets, foreign=Listing(options.most), misplaced=Listing(options.most)
        )
        _list_table(store, root, found, report)
        _list_dead_letter(store, f"{dead_letter_root(root)}/", rejected)
        shared = SharedFiles(store, root, found, report, settings.max_write_workers)
        shared.resolve(by_column=options.offsets)
        reader = OffsetReader(store, root, report, settings.max_write_workers)
        for tp in found.topic_partitions():
            batches = reader.batches(found.files(tp)) if options.offsets else _batches_by_name(found.files(tp))
            report.partitions.append(_audit(batches, _dead_letters(store, rejected, tp), options.most))
    print_line(as_json(report) if options.json else as_text(report))
    return 1 if report.has_doubled else 0


def _list_table(store: ObjectStore, root: str, found: FileLedger, report: Report) -> None:
    """List the files, and leave out those of batches that are not in the table, while a connector may be at work.

    Pending batches are read after the listing: by then a batch in progress may be finished, or rolled back with its
    rows in another batch that was listed too. Files rolled back before the listing stay out even if no journal names
    them any more afterwards.
    """
    rolled_back_before = survey(store, root).rolled_back
    for listed in store.list(f"{root}/"):
        if not is_data_file(listed.key, root):
            continue
        name = listed.key.rpartition("/")[2]
        if part := part_of(name):
            found.add(part, listed.key, listed.size)
        elif shared := shared_file_of(name):
            found.add_shared(shared, listed.key, listed.size)
        else:
            report.foreign.add(listed.key.removeprefix(f"{root}/"))
    after = survey(store, root)
    names = {key.rpartition("/")[2] for key in rolled_back_before | after.rolled_back | after.pending}
    report.unfinished_count = sum(found.remove(part) for part in set(map(part_of, names)) if part)
    report.unfinished_count += sum(found.remove_shared(file) for file in set(map(shared_file_of, names)) if file)
    report.files = found.count()


def _list_dead_letter(store: ObjectStore, folder: str, rejected: FileLedger) -> None:
    for listed in store.list(folder):
        part = part_of(listed.key.removeprefix(folder))
        if part is not None:
            rejected.add(part, listed.key, listed.size)


def _dead_letters(store: ObjectStore, rejected: FileLedger, tp: TopicPartition) -> DeadLetters:
    def read(file: ListedFile) -> list[Range]:
        offsets = read_offsets(store, file.key, file.size, "offset")
        return [] if offsets is None else ranges_of(offsets)

    return DeadLetters((_named(file), partial(read, file)) for file in rejected.files(tp))


def _audit(batches: Iterator[HeldBatch], dead_letters: DeadLetters, most: int) -> Findings:
    first = next(batches)
    partition = PartitionAudit(first.part, dead_letters, most)
    for batch in chain((first,), batches):
        partition.add(batch)
    return partition.finish()


def _batches_by_name(files: Iterable[ListedFile]) -> Iterator[HeldBatch]:
    return (HeldBatch(file.part, file.files, [_named(file)]) for file in files)


def _named(file: ListedFile) -> Range:
    return Range(file.part.offsets.first, file.part.offsets.last)
