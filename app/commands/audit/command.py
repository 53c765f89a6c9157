"""``python main.py audit``: which offsets are in the table, which twice, which not."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain, groupby

import pyarrow as pa
import pyarrow.compute as pc

from app.commands.answers import tell
from app.commands.arguments import ArgumentParser
from app.commands.audit.file_ledger import FileLedger, ListedFile
from app.commands.audit.offset_columns import read_offsets
from app.commands.audit.offset_ranges import Range, gaps, intersection, ranges_of
from app.commands.audit.offsets import DeadLetters, Findings, HeldBatch, Listing, PartitionAudit
from app.commands.audit.report import Misplaced, Report, as_json, as_text
from app.commands.side_by_side import side_by_side
from app.config.settings import Settings
from app.journal.survey import survey
from app.model import TopicPartition
from app.service.lake import find_table
from app.storage.base import ObjectStore
from app.table.layout import dead_letter_root, is_data_file, part_of

_OFFSET = "__offset"
_MOST = 20


def audit(settings: Settings, arguments: Sequence[str]) -> int:
    """Say which offsets the table's files hold.

    Returns:
        1 if offsets are there twice, or may be, else 0.

    Raises:
        ConnectorError: the store fails, or a file cannot be read.
    """
    options = _options(arguments)
    store, location = find_table(settings)
    root = location.root
    with ExitStack() as ends:
        found = ends.enter_context(closing(FileLedger(with_keys=options.offsets)))
        rejected = ends.enter_context(closing(FileLedger(with_keys=True)))
        report = Report(
            location.uri, by_column=options.offsets, foreign=Listing(options.most), misplaced=Listing(options.most)
        )
        _list_table(store, root, found, report)
        _list_dead_letter(store, f"{dead_letter_root(root)}/", rejected)
        reader = _Reader(store, root, report, settings.max_write_workers)
        for tp in found.topic_partitions():
            batches = reader.batches(found.files(tp)) if options.offsets else _batches_by_name(found.files(tp))
            report.partitions.append(_audit(batches, _dead_letters(store, rejected, tp), options.most))
    tell(as_json(report) if options.json else as_text(report))
    return 1 if report.has_doubled else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = ArgumentParser("audit", "Show which offsets the table's files hold, which twice, and which are missing.")
    parser.add_argument(
        "--offsets", action="store_true", help=f"read the column {_OFFSET} of each file, not only the files' names"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--most", metavar="N", type=_count, default=_MOST, help="list so many of each kind (%(default)s)"
    )
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def _list_table(store: ObjectStore, root: str, found: FileLedger, report: Report) -> None:
    """List the files, and leave out those of batches that are not in the table, while a connector may be at work.

    What is pending counts as of after the listing: by then a batch seen in the making may be finished, or undone and
    its rows be in another one that was listed too. What was revoked before the listing stays out even if it has been
    forgotten meanwhile.
    """
    rolled_back_before = survey(store, root).rolled_back
    for listed in store.list(f"{root}/"):
        if not is_data_file(listed.key, root):
            continue
        part = part_of(listed.key.rpartition("/")[2])
        if part is not None:
            found.add(part, listed.key, listed.size)
        else:
            report.foreign.add(_below(root, listed.key))
    after = survey(store, root)
    parts = {part_of(key.rpartition("/")[2]) for key in rolled_back_before | after.rolled_back | after.pending}
    report.unfinished_count = sum(found.remove(part) for part in parts if part is not None)


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


class _Reader:
    """Reads the offsets of files, several at once, and notes in the report what is odd about a file."""

    def __init__(self, store: ObjectStore, root: str, report: Report, workers: int) -> None:
        self._store = store
        self._root = root
        self._report = report
        self._workers = workers

    def batches(self, files: Iterable[ListedFile]) -> Iterator[HeldBatch]:
        """Yield the batches with the offsets that their files hold; the files of a batch come together.

        Several rows of one offset are one: a message may have become several, in several folders.
        """
        read = side_by_side(self._workers, self._offsets_in, files)
        for part, of_batch in groupby(read, key=lambda entry: entry[0].part):
            named = Range(part.offsets.first, part.offsets.last)
            held: list[pa.Array] = []
            count = 0
            is_known = True
            for file, offsets in of_batch:
                count += 1
                if offsets is None:
                    is_known = False
                    self._report.without_offsets += 1
                else:
                    self._check_place(file, offsets, named)
                    held.append(offsets)
            ranges = ranges_of(pa.chunked_array(held, pa.int64()).combine_chunks()) if is_known else [named]
            yield HeldBatch(part, count, intersection(ranges, [named]))

    def _offsets_in(self, file: ListedFile) -> pa.Array | None:
        return read_offsets(self._store, file.key, file.size, _OFFSET)

    def _check_place(self, file: ListedFile, offsets: pa.Array, named: Range) -> None:
        bounds = pc.min_max(offsets).as_py()
        if not len(offsets) or named.first <= bounds["min"] <= bounds["max"] <= named.last:
            return
        outside = [each for held in ranges_of(offsets) for each in gaps([named], held)]
        self._report.misplaced.add(
            Misplaced(_below(self._root, file.key), outside[0], sum(each.size for each in outside))
        )


def _below(root: str, key: str) -> str:
    return key.removeprefix(f"{root}/")
