"""Lists the files of a table, and groups them into batches, by what names and footers say."""

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
    """What a table consists of.

    Attributes:
        root: the table's folder.
        names: the files of each name, as folders and sizes. A batch has the same names in all folders.
        files: how many files may have rows of a part of a batch.
        vague: those parts with rows in files that do not say their offsets, as ``compact`` merges them.
        merged_files: how many files it has merged of others; they are not in ``names``.
        left_out: how many files are not in the table, or not yet.
        others: paths of Parquet files that do not say the offsets in them.
    """

    root: str
    names: defaultdict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    files: Counter[Part] = field(default_factory=Counter)
    vague: set[Part] = field(default_factory=set)
    merged_files: int = 0
    left_out: int = 0
    others: list[str] = field(default_factory=list)

    def path(self, key: str) -> str:
        """The path of a file below the table's folder."""
        return key.removeprefix(f"{self.root}/")


def list_table(store: ObjectStore, root: str, listed: Iterable[tuple[str, int]], workers: int) -> TableFiles:
    """Group these files, given lazily by key and size, without those of batches that are not in the table.

    Pending batches are read after the listing: by then a batch in progress may be finished, or rolled back with its
    rows in another batch that was listed too. Files rolled back before the listing stay out even if no journal names
    them any more afterwards.
    """
    rolled_back = survey(store, root).rolled_back
    found = TableFiles(root)
    merged: list[tuple[str, int]] = []
    folders: dict[str, str] = {}  # each is in memory once
    for key, size in listed:
        folder, _, name = key.rpartition("/")
        if is_merged(key):
            merged.append((key, size))
        elif shared_file_of(name) or named_part(name):
            found.names[name].append((folders.setdefault(folder, folder), size))
        else:
            found.others.append(found.path(key))
    after = survey(store, root)
    for name in {key.rpartition("/")[2] for key in rolled_back | after.rolled_back | after.pending}:
        found.left_out += len(found.names.pop(name, ()))
    asked = [[file] for file in merged]
    for name, files in found.names.items():
        if part := named_part(name):
            found.files[part] += len(files)
        else:
            asked.append(sorted(((f"{folder}/{name}", size) for folder, size in files), key=itemgetter(1, 0)))
    for files, parts in side_by_side(workers, partial(_parts_in, store), asked):
        name = files[0][0].rpartition("/")[2]
        if is_merged(name):
            found.vague.update(parts or ())
            found.merged_files += parts is None or len(parts) > 0
        elif not parts:
            del found.names[name]
        found.files.update(dict.fromkeys(parts or (), len(files)))
        found.others += [found.path(key) for key, _ in files] if parts == [] else []
    return found


def _parts_in(store: ObjectStore, files: Sequence[tuple[str, int]]) -> Sequence[Part] | None:
    """The batches in files that have the same in their footers, by the first with rows; ``None`` if none has any.

    ``compact`` and a rollback leave files without rows, which say nothing.
    """
    for key, size in files:
        footer = read_footer(store, key, size)
        parts = batches_in(key, footer.metadata)
        if parts or footer.num_rows:
            return parts
    return None


def batch_in(key: str) -> str:
    """The batch in a file's name, as ``<owner>-<number>``."""
    return key.rpartition("_")[2].removesuffix(".parquet")
