"""Lists the files of a table, and finds the batch of each file from its name or footer."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter

from app.journal.journal import survey
from app.parts.maintenance.batch_metadata import Part, batches_in, named_part
from app.storage.base import ObjectStore
from app.table.layout import is_merged, shared_file_of
from app.table.parquet_reader import read_footer
from app.work_pool import side_by_side


@dataclass(slots=True)
class TableFiles:
    """The files of a table.

    Attributes:
        root: The table's folder.
        names: The folder and size of each file, by the file's name. A batch uses the same names in all folders.
        files: The number of files that may contain rows of each part of a batch.
        vague: The parts that have rows in files without offsets, such as merged files.
        merged_files: The number of files that ``compact`` has merged. ``names`` omits these files.
        skipped: The number of files whose batch is in progress or rolled back.
        others: The paths of other Parquet files, whose offsets are unknown.
    """

    root: str
    names: defaultdict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    files: Counter[Part] = field(default_factory=Counter)
    vague: set[Part] = field(default_factory=set)
    merged_files: int = 0
    skipped: int = 0
    others: list[str] = field(default_factory=list)

    def path(self, key: str) -> str:
        """Return the path of a file, relative to the table's folder."""
        return key.removeprefix(f"{self.root}/")


def list_table(store: ObjectStore, root: str, listed: Iterable[tuple[str, int]], workers: int) -> TableFiles:
    """Return the files of the object keys and sizes in ``listed``. Omit batches that are in progress or rolled back.

    During the listing, a batch may be rolled back, and its records may be written as another listed batch. Logs with
    rolled-back files may also be deleted meanwhile. Therefore the journal is read before and after the listing.
    """
    rolled_back = survey(store, root).rolled_back
    table = TableFiles(root)
    merged: list[tuple[str, int]] = []
    folders: dict[str, str] = {}  # so that equal names share one Python object
    for key, size in listed:
        folder, _, name = key.rpartition("/")
        if is_merged(key):
            merged.append((key, size))
        elif shared_file_of(name) or named_part(name):
            table.names[name].append((folders.setdefault(folder, folder), size))
        else:
            table.others.append(table.path(key))
    after = survey(store, root)
    for name in {key.rpartition("/")[2] for key in rolled_back | after.rolled_back | after.pending}:
        table.skipped += len(table.names.pop(name, ()))
    groups = [[file] for file in merged]
    for name, files in table.names.items():
        if part := named_part(name):
            table.files[part] += len(files)
        else:
            groups.append(sorted(((f"{folder}/{name}", size) for folder, size in files), key=itemgetter(1, 0)))
    for files, parts in side_by_side(workers, partial(_parts_in, store), groups):
        name = files[0][0].rpartition("/")[2]
        if is_merged(name):
            table.vague.update(parts or ())
            table.merged_files += parts is None or len(parts) > 0
        elif not parts:
            del table.names[name]
        table.files.update(dict.fromkeys(parts or (), len(files)))
        table.others += [table.path(key) for key, _ in files] if parts == [] else []
    return table


def _parts_in(store: ObjectStore, files: Sequence[tuple[str, int]]) -> Sequence[Part] | None:
    """Return the parts of batches in these files of one name; ``None`` if no file contains rows.

    All files with rows have equal batch metadata. The footer of a file without rows contains no batch metadata.
    """
    for key, size in files:
        footer = read_footer(store, key, size)
        parts = batches_in(key, footer.metadata)
        if parts or footer.num_rows:
            return parts
    return None


def batch_in(key: str) -> str:
    """Return the batch that a file's name contains, as ``<owner>-<number>``."""
    return key.rpartition("_")[2].removesuffix(".parquet")
