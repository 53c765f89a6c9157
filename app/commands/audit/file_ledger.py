"""Sorts the files of a listing by their offsets; on disk where they are many."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from app.commands.audit.offset_ranges import Range
from app.errors import FatalError
from app.model import BatchPart, OffsetRange, TopicPartition
from app.table.layout import SharedFile

_CACHE_KIB = 32 * 1024  # what a table with a million batches needs; beyond it SQLite uses the temporary folder


_SETUP = (
    "PRAGMA journal_mode = OFF",
    f"PRAGMA cache_size = -{_CACHE_KIB}",
    "CREATE TABLE file (topic TEXT, partition INTEGER, first INTEGER, last INTEGER, owner TEXT,"
    " number INTEGER, key TEXT, size INTEGER, files INTEGER, held TEXT,"
    " PRIMARY KEY (topic, partition, first, last, owner, number, key)) WITHOUT ROWID",
    "CREATE TABLE shared (owner TEXT, number INTEGER, size INTEGER, key TEXT,"
    " PRIMARY KEY (owner, number, size, key)) WITHOUT ROWID",
    "BEGIN",  # a transaction for each file would take longer than the listing
)


class ListedFile(NamedTuple):
    """A file, or several of a batch: then ``key`` is empty, and ``size`` 0.

    ``held`` are the offsets that the batch's files of several topic-partitions hold, where they were read.
    """

    part: BatchPart
    key: str
    size: int
    files: int
    held: Sequence[Range] | None = None


class ObjectOfBatch(NamedTuple):
    """A file of several topic-partitions; ``size`` in bytes."""

    key: str
    size: int


class SharedBatch(NamedTuple):
    """A batch with files of several topic-partitions: how many, and the smallest of them."""

    owner: str
    number: int
    files: int
    smallest: ObjectOfBatch


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
            "INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, NULL) ON CONFLICT DO UPDATE SET files = files + 1",
            *_fields(part),
            *file,
        )

    def add_shared(self, file: SharedFile, key: str, size: int) -> None:
        """Note a file of several topic-partitions."""
        self._run("INSERT INTO shared VALUES (?, ?, ?, ?)", file.owner, file.number, size, key)

    def add_shared_part(self, part: BatchPart, files: int, held: Sequence[Range] | None) -> None:
        """Note what the files of several topic-partitions are for one of these.

        Args:
            part: the offsets that the batch has of it.
            files: how many such files the batch has.
            held: the offsets in them; ``None`` where nobody knows.
        """
        self._run(
            "INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, '', 0, ?, ?)"
            " ON CONFLICT DO UPDATE SET files = files + excluded.files",
            *_fields(part),
            files,
            None if held is None else json.dumps(held),
        )

    def remove(self, part: BatchPart) -> int:
        """Forget the files of one topic-partition of a batch; returns how many there were."""
        removed = self._run(
            "DELETE FROM file WHERE topic = ? AND partition = ? AND first = ? AND last = ? AND owner = ?"
            " AND number = ? RETURNING files",
            *_fields(part),
        )
        return sum(files for (files,) in removed)

    def remove_shared(self, file: SharedFile) -> int:
        """Forget the files of several topic-partitions of a batch; returns how many there were."""
        return len(
            self._run("DELETE FROM shared WHERE owner = ? AND number = ? RETURNING key", file.owner, file.number)
        )

    def count(self) -> int:
        """How many files there are."""
        [(files,)] = self._run("SELECT (SELECT coalesce(sum(files), 0) FROM file) + (SELECT count(*) FROM shared)")
        return int(files)

    def shared_batches(self) -> Iterator[SharedBatch]:
        """Yield the batches that have files of several topic-partitions."""
        for owner, number, size, key, files in self._rows(
            "SELECT owner, number, min(size), key, count(*) FROM shared GROUP BY owner, number"
        ):
            yield SharedBatch(owner, number, files, ObjectOfBatch(key, size))

    def shared_files(self, batch: SharedBatch) -> Iterator[ObjectOfBatch]:
        """Yield the files of several topic-partitions of a batch."""
        return (
            ObjectOfBatch(key, size)
            for key, size in self._rows(
                "SELECT key, size FROM shared WHERE owner = ? AND number = ?", batch.owner, batch.number
            )
        )

    def topic_partitions(self) -> list[TopicPartition]:
        """Those that have files, sorted."""
        rows = self._run("SELECT DISTINCT topic, partition FROM file ORDER BY topic, partition")
        return [TopicPartition(*row) for row in rows]

    def files(self, tp: TopicPartition) -> Iterator[ListedFile]:
        """Yield the files (or batches) of a topic-partition by first offset, those of one batch together."""
        for first, last, owner, number, key, size, files, held in self._rows(
            "SELECT first, last, owner, number, key, size, files, held FROM file WHERE topic = ? AND partition = ?"
            " ORDER BY first, last, owner, number, key",
            *tp,
        ):
            part = BatchPart(OffsetRange(tp, first, last), owner, number)
            yield ListedFile(
                part, key, size, files, None if held is None else [Range(*each) for each in json.loads(held)]
            )

    def _run(self, statement: str, *values: str | int | None) -> list[Any]:
        return list(self._rows(statement, *values))

    def _rows(self, statement: str, *values: str | int | None) -> Iterator[Any]:
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
