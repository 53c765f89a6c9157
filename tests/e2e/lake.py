"""A finished table as its readers see it: pyarrow and DuckDB."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from app.journal.entry import is_log
from app.spark.batch_offsets import read_batch_offsets
from app.storage.base import ObjectStore, StoredObject
from app.storage.s3.store import S3Store
from dev.lake import table_source
from dev.minio import LocalMinio
from tests.e2e.records import PLACES

FILE_NAME = re.compile(
    r"data_(?P<topic>.+)(-(?P<partition>\d+)_(?P<first>\d{19})-(?P<last>\d+)|_batch)_[0-9a-f]{24}-\d+\.parquet"
)


def offsets_of_batch(path: Path) -> dict[int, set[int]]:
    """The offsets of the file's batch, by partition: from its name, or from its footer where it has rows of several."""
    named = FILE_NAME.fullmatch(path.name)
    assert named is not None, path.name
    if named["partition"]:
        return {int(named["partition"]): set(range(int(named["first"]), int(named["last"]) + 1))}
    offsets = read_batch_offsets(pq.read_metadata(path).metadata)
    assert len(offsets) > 1
    assert {each.tp.topic for each in offsets} == {named["topic"]}
    return {each.tp.partition: set(range(each.first, each.last + 1)) for each in offsets}


@dataclass(frozen=True)
class Tally:
    """What must be equal in and out."""

    rows: int
    distinct: int
    total: int
    by_place: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Tally":
        return cls.of_rows((n, PLACES[n % len(PLACES)]) for n in numbers)

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, str]]) -> "Tally":
        """The tally of rows of a number and a place."""
        numbers = list[int]()
        of_place = defaultdict[str, list[int]](list)
        for n, place in rows:
            numbers.append(n)
            of_place[place].append(n)
        by_place = {place: (len(found), sum(found)) for place, found in of_place.items()}
        return cls(len(numbers), len(set(numbers)), sum(numbers), by_place)


class Lake:
    """A table in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self) -> list[Path]:
        """Those with rows: after a crash, placeholders may have the names of files that were undone."""
        found = sorted(path for path in self.folder.rglob("*.parquet") if path.is_file())
        return [path for path in found if pq.read_metadata(path).num_rows]

    def numbers(self) -> list[int]:
        return sorted(n for path in self.files() for n in pq.ParquetFile(path).read(["n"])["n"].to_pylist())

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query by DuckDB, with the table as ``{source}``."""
        with duckdb.connect() as database:
            return database.execute(sql.format(source=table_source(self.folder))).fetchall()

    def tally_by_duckdb(self) -> Tally:
        return Tally.of_rows(self.query("SELECT n, location FROM {source}"))

    def tally_by_pyarrow(self) -> Tally:
        table = ds.dataset(self.folder, partitioning="hive").to_table(columns=["n", "location"])
        return Tally.of_rows(zip(table["n"].to_pylist(), table["location"].to_pylist(), strict=True))


def mirror(server: LocalMinio, bucket: str, folder: Path, prefix: str = "") -> Lake:
    """Bring the objects below the prefix into a folder, which then is the lake."""
    return copy(S3Store(server.target(bucket), max_workers=1), prefix, folder)


def copy(store: ObjectStore, prefix: str, folder: Path) -> Lake:
    """As ``mirror``, of any store."""
    for found in store.list(prefix):
        path = folder / found.key.removeprefix(prefix).lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        store.download(found.key, path)
    return Lake(folder)


@dataclass(frozen=True)
class Home:
    """A place for tables: ``settings`` lead the connector there, and ``store`` is to look into it."""

    settings: dict[str, str]
    store: ObjectStore

    def objects(self, prefix: str) -> list[StoredObject]:
        return list(self.store.list(prefix))

    def logs(self, table: str) -> Iterator[dict[str, Any]]:
        for found in self.store.list(f"{table}/_journal/"):
            document = self.store.read(found.key) if is_log(found.key) else None
            if document is not None:
                yield json.loads(document.body)

    def is_at_work(self, table: str) -> bool:
        return any(log["state"] == "pending" for log in self.logs(table))

    def mirror(self, table: str, folder: Path) -> Lake:
        """Bring the table's files into a folder, as a reader that lists the store finds them."""
        return copy(self.store, f"{table}/", folder)
