"""A finished table as its readers see it: pyarrow, DuckDB and Spark."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from app.spark.batch_offsets import read_batch_offsets
from dev.lake import table_source
from dev.minio import LocalMinio
from tests.e2e.records import PLACES
from tests.e2e.spark_reader import SparkReader

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
        """The tally of a table that holds the records of these numbers."""
        listed = list(numbers)
        places: dict[str, list[int]] = {}
        for n in listed:
            places.setdefault(PLACES[n % len(PLACES)], []).append(n)
        by_place = {place: (len(of_place), sum(of_place)) for place, of_place in sorted(places.items())}
        return cls(len(listed), len(set(listed)), sum(listed), by_place)


_TOTALS = "SELECT count(*), count(DISTINCT n), sum(n) FROM {source}"
_BY_PLACE = "SELECT location, count(*), sum(n) FROM {source} GROUP BY location ORDER BY location"


class Lake:
    """A table in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self) -> list[Path]:
        """Those with rows: after a crash, placeholders may have the names of files that were undone."""
        found = sorted(path for path in self.folder.rglob("*.parquet") if path.is_file())
        return [path for path in found if pq.read_metadata(path).num_rows]

    def numbers(self) -> list[int]:
        """The numbers of all records in the lake, sorted, doubled ones twice."""
        return sorted(n for path in self.files() for n in pq.ParquetFile(path).read(["n"])["n"].to_pylist())

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query by DuckDB, with the table as ``{source}``."""
        with duckdb.connect() as database:
            return database.execute(sql.format(source=table_source(self.folder))).fetchall()

    def tally_by_duckdb(self) -> Tally:
        return _tally(self.query(_TOTALS), self.query(_BY_PLACE))

    def tally_by_spark(self, reader: SparkReader) -> Tally:
        totals, by_place = (reader.query(self.folder, sql.format(source="lake")) for sql in (_TOTALS, _BY_PLACE))
        return _tally(totals, by_place)

    def tally_by_pyarrow(self) -> Tally:
        table = ds.dataset(self.folder, partitioning="hive").to_table(columns=["n", "location"])
        numbers, places = table["n"].to_pylist(), table["location"].to_pylist()
        counted: Counter[str] = Counter(places)
        sums: Counter[str] = Counter()
        for n, place in zip(numbers, places, strict=True):
            sums[place] += n
        by_place = {place: (counted[place], sums[place]) for place in sorted(counted)}
        return Tally(len(numbers), len(set(numbers)), sum(numbers), by_place)


def _tally(totals: Iterable[Iterable[Any]], by_place: Iterable[Iterable[Any]]) -> Tally:
    [(rows, distinct, total)] = totals
    return Tally(rows, distinct, int(total), {place: (count, int(sum_)) for place, count, sum_ in by_place})


def mirror(server: LocalMinio, bucket: str, folder: Path, prefix: str = "") -> Lake:
    """Bring the objects below the prefix into a folder, which then is the lake."""
    s3 = server.client()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            path = folder / item["Key"].removeprefix(prefix).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, item["Key"], str(path))
    return Lake(folder)
