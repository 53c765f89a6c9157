"""Lists the files of a table, and groups them into batches by names and footers."""

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
        names: Folders and sizes of the files of each name. A batch has the same names in all folders.
        files: Number of files that may contain rows of a part of a batch.
        vague: Parts with rows in files without offsets, such as merged files.
        merged_files: Number of files that ``compact`` has merged. They are not in ``names``.
        skipped: Number of files of batches that are in progress or rolled back.
        others: Paths of Parquet files with unknown offsets.
    """

    root: str
    names: defaultdict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    files: Counter[Part] = field(default_factory=Counter)
    vague: set[Part] = field(default_factory=set)
    merged_files: int = 0
    skipped: int = 0
    others: list[str] = field(default_factory=list)

    def path(self, key: str) -> str:
        """Return the path of a file below the table's folder."""
        return key.removeprefix(f"{self.root}/")


def list_table(store: ObjectStore, root: str, listed: Iterable[tuple[str, int]], workers: int) -> TableFiles:
    """Group these keys and sizes, without the files of batches that are in progress or rolled back.

    The journal is read before and after the listing. During the listing, a batch in progress may be completed, or
    rolled back and written again as a batch that is listed too. A log with older rolled-back files may be deleted.
    """
    rolled_back = survey(store, root).rolled_back
    table = TableFiles(root)
    merged: list[tuple[str, int]] = []
    folders: dict[str, str] = {}  # keeps each name in memory once
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
    """Return the parts of batches in these files, which have equal footers; ``None`` if no file contains rows.

    Files without rows, which ``compact`` and a rollback write, have no footer of a batch.
    """
    for key, size in files:
        footer = read_footer(store, key, size)
        parts = batches_in(key, footer.metadata)
        if parts or footer.num_rows:
            return parts
    return None


def batch_in(key: str) -> str:
    """Return the batch in a file's name, as ``<owner>-<number>``."""
    return key.rpartition("_")[2].removesuffix(".parquet")
