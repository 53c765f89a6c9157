"""A table that one of the two sinks has begun and the other goes on with."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from app.spark.writer import SparkWriter
from app.table.layout import QUIX_NULL
from tests.fakes.catalog_server import CatalogServer
from tests.parity.case import BUCKET, ROOT, TABLE, Case
from tests.parity.lake import Outcome
from tests.parity.ours import Ours
from tests.parity.theirs import Theirs

FIRST: list[Any] = [{"p": "a", "driver": "x", "n": 1}, {"p": None, "driver": "y", "s": "text"}, {"p": "b", "x": 1.5}]
SECOND: list[Any] = [{"p": "a", "driver": "z", "n": 2}, {"driver": "y", "s": "more"}, {"p": "c", "x": 2.5}]
CASE = Case("continued", [FIRST, SECOND], hive_columns="year,p,~driver", sort_column="n", stats_columns="n,x")
ROWS = [
    ("a", "x", 1, None, None),
    (QUIX_NULL, "y", None, "text", None),
    ("b", None, None, None, 1.5),
    ("a", "z", 2, None, None),
    (QUIX_NULL, "y", None, "more", None),
    ("c", None, None, None, 2.5),
]


class Shared:
    def __init__(self, folder: Path, catalog: CatalogServer, spark: SparkWriter) -> None:
        self._folder = folder
        self._spark = spark
        self.catalog = catalog
        self.lake = folder / BUCKET

    def write(self, sink: str, case: Case, batch: int) -> Outcome:
        writer = (
            Theirs(case, self.lake, self.catalog)
            if sink == "theirs"
            else Ours(case, self.lake, self._folder / "scratch", self.catalog, self._spark)
        )
        with closing(writer):
            return writer.write(case.numbered[batch])

    def read(self, columns: str) -> list[tuple[Any, ...]]:
        """The whole table, as DuckDB reads it: data files alone, for ``**`` would find the index files too."""
        source = f"'{self.lake / ROOT}/year=*/p=*/*.parquet', union_by_name = true, hive_types_autocast = false"
        return duckdb.execute(f"SELECT {columns} FROM read_parquet({source}) ORDER BY row").fetchall()  # noqa: S608


@pytest.fixture
def table(tmp_path: Path, spark: SparkWriter) -> Iterator[Shared]:
    with CatalogServer() as catalog:
        yield Shared(tmp_path, catalog, spark)


@pytest.mark.parametrize(("first", "second"), [("theirs", "ours"), ("ours", "theirs")])
def test_a_table_of_one_is_continued_by_the_other(table: Shared, first: str, second: str) -> None:
    begun, went_on = (table.write(sink, CASE, batch) for batch, sink in enumerate((first, second)))

    assert _folders(begun) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=b"}
    assert _folders(went_on) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=c"}
    requests = [request.about for request in went_on.requests]
    assert requests == ["POST sources", "POST manifest/add-files"], "the table is known, with all properties"
    assert table.read("p, driver, n, s, x") == ROWS
    assert len(table.catalog.files(TABLE)) == 6


def _folders(outcome: Outcome) -> set[str]:
    return {file.folder for file in outcome.files}
