"""An Iceberg table in a folder, whose catalog is a SQLite database in it or another one."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from app.model import DataFile, Mark, TopicPartition
from app.parts.iceberg.catalog_address import IcebergTarget
from app.parts.iceberg.table import IcebergTable
from app.storage.local.store import LocalStore
from app.table import layout
from app.table.layout import data_key
from tests.support.batches import spec

ROOT = "data/readings"
WANTED = spec("place")
P0, P1 = TopicPartition("readings", 0), TopicPartition("readings", 1)
AT = datetime(2025, 3, 30, 12, 0, 0, 5)
EVERY_TYPE = {
    "n": pa.array([2**60, None], pa.int64()),
    "x": pa.array([1.5, float("nan")]),
    "s": ["ü", None],
    "b": [b"\0", None],
    "ok": [True, None],
    "born": [AT.date(), None],
    "local": pa.array([AT, None], pa.timestamp("us")),
    "moment": pa.array([AT.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "price": pa.array([Decimal("12.34"), None], pa.decimal128(10, 2)),
    "sum": pa.array([Decimal("-1"), None], pa.decimal128(38, 0)),
    "tags": [["a", None], None],
    "where": [{"lat": 1.0, "path": [{"z": 1}]}, None],
    "rooms": pa.array([{"x": {"seats": 3}, "y": None}, None], pa.map_(pa.string(), pa.struct({"seats": pa.int64()}))),
}


class IcebergBench:
    """A table that several members write; the folder has the catalog too, if ``properties`` name no other."""

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        namespace: str = "lake",
        partition: str = "place",
    ) -> None:
        self.store = LocalStore(folder)
        self.properties = dict(properties or {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"})
        self.namespace = namespace
        self.partition = partition

    def member(self, *, keep_days: float = 1.0, wanted: layout.PartitionSpec | None = None) -> IcebergTable:
        member = self.new_member(keep_days)
        if member.check() is None:
            member.create_table(f"{self.store.uri}/{ROOT}", wanted or spec(self.partition))
        return member

    def new_member(
        self, keep_days: float = 1.0, transforms: Sequence[tuple[str, str, pa.DataType | None]] = ()
    ) -> IcebergTable:
        named = (self.store.uri, self.namespace, "readings", "group")
        return IcebergTable(IcebergTarget("", self.properties, *named, keep_days, transforms), self.store)

    def create(self, schema: Schema, *partitions: PartitionField) -> Table:
        catalog = load_catalog("default", **self.properties)
        catalog.create_namespace(self.namespace)
        where = f"{self.store.uri}/{ROOT}"
        return catalog.create_table(f"{self.namespace}.readings", schema, where, PartitionSpec(*partitions))

    def file(self, name: str, columns: Mapping[str, Any] | pa.Table, place: str | None = "Rome") -> DataFile:
        """A file of the table in the store, without field ids, as Spark writes it."""
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        table = table.append_column(self.partition, pa.array([place] * len(table), pa.string()))
        values = {self.partition: place or "__HIVE_DEFAULT_PARTITION__"}
        key = data_key(ROOT, values, f"{name}.parquet")
        path = Path(self.store.uri.removeprefix("file://"), key)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, store_decimal_as_integer=True)
        size, footer = path.stat().st_size, pq.read_metadata(path)
        return DataFile(key, values, len(table), size, path, datetime.now(UTC), footer, f"{self.store.uri}/{key}")

    @property
    def table(self) -> Table:
        return load_catalog("default", **self.properties).load_table(f"{self.namespace}.readings")

    def rows(self, *names: str) -> list[dict[str, Any]]:
        found = self.table.scan(selected_fields=names or ("*",)).to_arrow().to_pylist()
        return sorted(found, key=repr)

    def fill(self, count: int = 3, keep_days: float = 1.0) -> None:
        """Commit files of a row each: the numbers from 0 on."""
        member = self.member(keep_days=keep_days)
        for number in range(count):
            member.add_files([self.file(str(number), {"n": [number]})], "readings", marks(number))

    def numbers(self) -> list[int]:
        return sorted(row["n"] for row in self.rows("n"))


def marks(end: int, *, series: str = "s", tps: Sequence[TopicPartition] = (P0,)) -> list[Mark]:
    return [Mark(tp, series, end) for tp in tps]


def commits(monkeypatch: pytest.MonkeyPatch, *, before: Any = None, after: Any = None) -> list[int]:
    """Let these happen before or after each commit that the catalog carries out; returns a count of commits."""
    commit, count = SqlCatalog.commit_table, [0]

    def committed(*args: Any) -> Any:
        count[0] += 1
        if before:
            before(count[0])
        answer = commit(*args)
        if after:
            after(count[0])
        return answer

    monkeypatch.setattr(SqlCatalog, "commit_table", committed)
    return count
