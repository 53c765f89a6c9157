"""Sorts the files of a listing by their offsets; on disk where they are many."""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from app.errors import FatalError
from app.model import BatchPart, OffsetRange, TopicPartition

_CACHE_KIB = 32 * 1024  # what a table with a million batches needs; beyond it SQLite uses the temporary folder


_SETUP = (
    "PRAGMA journal_mode = OFF",
    f"PRAGMA cache_size = -{_CACHE_KIB}",
    "CREATE TABLE file (topic TEXT, partition INTEGER, first INTEGER, last INTEGER, owner TEXT,"
    " number INTEGER, key TEXT, size INTEGER, files INTEGER,"
    " PRIMARY KEY (topic, partition, first, last, owner, number, key)) WITHOUT ROWID",
    "BEGIN",  # a transaction for each file would take longer than the listing
)


class ListedFile(NamedTuple):
    """A file, or all files of a batch: then ``key`` is empty, and ``size`` 0."""

    part: BatchPart
    key: str
    size: int
    files: int


class FileLedger:
    """Takes files in the order of a listing, folder by folder, and gives them back batch by batch.

    In a listing of S3 the files of one batch are far apart from each other. In a private database of SQLite, which has
    no name and goes with the process, they cost no memory each. Any method may raise ``FatalError``: its disk is full.

    Args:
        with_keys: keep each file; else only how many a batch has.
    """

    def __init__(self, *, with_keys: bool) -> None:
        self._with_keys = with_keys
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in _SETUP:
            self._run(statement)

    def close(self) -> None:
        """Delete the database."""
        self._database.close()

    def add(self, part: BatchPart, key: str, size: int) -> None:
        """Note a file."""
        file = (key, size) if self._with_keys else ("", 0)
        self._run(
            "INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET files = files + 1",
            *_fields(part),
            *file,
        )

    def remove(self, part: BatchPart) -> int:
        """Forget the files of a batch; returns how many there were."""
        removed = self._run(
            "DELETE FROM file WHERE topic = ? AND partition = ? AND first = ? AND last = ? AND owner = ?"
            " AND number = ? RETURNING files",
            *_fields(part),
        )
        return sum(files for (files,) in removed)

    def topic_partitions(self) -> list[TopicPartition]:
        """Those that have files, sorted."""
        rows = self._run("SELECT DISTINCT topic, partition FROM file ORDER BY topic, partition")
        return [TopicPartition(*row) for row in rows]

    def files(self, tp: TopicPartition) -> Iterator[ListedFile]:
        """Yield the files (or batches) of a topic-partition by first offset, those of one batch together."""
        for first, last, owner, number, key, size, files in self._rows(
            "SELECT first, last, owner, number, key, size, files FROM file WHERE topic = ? AND partition = ?"
            " ORDER BY first, last, owner, number, key",
            *tp,
        ):
            yield ListedFile(BatchPart(OffsetRange(tp, first, last), owner, number), key, size, files)

    def _run(self, statement: str, *values: str | int) -> list[Any]:
        return list(self._rows(statement, *values))

    def _rows(self, statement: str, *values: str | int) -> Iterator[Any]:
        try:
            yield from self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise FatalError(
                "keeping the list of the table's files in the temporary folder",
                str(error),
                "Give it more space, or name another one: TMPDIR",
            ) from error


def _fields(part: BatchPart) -> tuple[str | int, ...]:
    return (*part.offsets.tp, part.offsets.first, part.offsets.last, part.owner, part.number)
