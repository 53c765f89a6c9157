"""The files of a listing in the order of their offsets, whatever their number: on disk where they are many."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from app.errors import FatalError
from app.model import BatchPart, OffsetRange, TopicPartition

_CACHE_KIB = 32 * 1024  # what a table with a million batches needs; beyond it SQLite uses the temporary folder


class ListedFile(NamedTuple):
    """A file, or all files of a batch: then ``key`` is empty, and ``size`` 0."""

    part: BatchPart
    key: str
    size: int
    files: int


class FileLedger(AbstractContextManager["FileLedger"]):
    """Takes files in the order of a listing, folder by folder, and gives them back batch by batch.

    A listing of S3 tells the files of one batch far apart from each other. In a private database of SQLite, which has
    no name and goes with the process, they cost no memory each.

    Args:
        with_keys: keep each file; else only how many a batch has.
    """

    def __init__(self, *, with_keys: bool) -> None:
        self._with_keys = with_keys
        with _translated():
            self._database = sqlite3.connect("", isolation_level=None)
            self._database.execute("PRAGMA journal_mode = OFF")
            self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._database.execute(
                "CREATE TABLE file (topic TEXT, partition INTEGER, first INTEGER, last INTEGER, owner TEXT,"
                " number INTEGER, key TEXT, size INTEGER, files INTEGER,"
                " PRIMARY KEY (topic, partition, first, last, owner, number, key)) WITHOUT ROWID"
            )
            self._database.execute("BEGIN")  # a transaction for each file would take longer than the listing

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def add(self, part: BatchPart, key: str, size: int) -> None:
        """Note a file."""
        (tp, first, last), (key, size) = _fields(part.offsets), (key, size) if self._with_keys else ("", 0)
        with _translated():
            self._database.execute(
                "INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET files = files + 1",
                (*tp, first, last, part.owner, part.number, key, size),
            )

    def remove(self, part: BatchPart) -> int:
        """Forget the files of a batch; returns how many there were."""
        tp, first, last = _fields(part.offsets)
        with _translated():
            removed = self._database.execute(
                "DELETE FROM file WHERE topic = ? AND partition = ? AND first = ? AND last = ? AND owner = ?"
                " AND number = ? RETURNING files",
                (*tp, first, last, part.owner, part.number),
            )
            return sum(files for (files,) in removed)

    def topic_partitions(self) -> list[TopicPartition]:
        """Those that have files, sorted."""
        with _translated():
            rows = self._database.execute("SELECT DISTINCT topic, partition FROM file ORDER BY topic, partition")
            return [TopicPartition(*row) for row in rows]

    def files(self, tp: TopicPartition) -> Iterator[ListedFile]:
        """Yield the files (or batches) of a topic-partition by first offset, those of one batch together."""
        with _translated():
            for first, last, owner, number, key, size, files in self._database.execute(
                "SELECT first, last, owner, number, key, size, files FROM file WHERE topic = ? AND partition = ?"
                " ORDER BY first, last, owner, number, key",
                tp,
            ):
                yield ListedFile(BatchPart(OffsetRange(tp, first, last), owner, number), key, size, files)


def _fields(offsets: OffsetRange) -> tuple[TopicPartition, int, int]:
    return offsets.tp, offsets.first, offsets.last


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise FatalError(
            "keeping the list of the table's files in the temporary folder",
            str(error),
            "Give it more space, or name another one: TMPDIR",
        ) from error
