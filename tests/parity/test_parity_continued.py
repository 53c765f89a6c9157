"""A table that one of the two sinks has begun and the other goes on with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from app.spark.writer import SparkWriter
from app.table.null_folder import QUIX_NULL
from tests.fakes.catalog_server import CatalogServer
from tests.parity.case import BUCKET, ROOT, TABLE, Case, Record
from tests.parity.lake import Outcome
from tests.parity.ours import Ours
from tests.parity.theirs import Theirs

FIRST: list[Any] = [{"p": "a", "driver": "x", "n": 1}, {"p": None, "driver": "y", "s": "text"}, {"p": "b", "x": 1.5}]
SECOND: list[Any] = [{"p": "a", "driver": "z", "n": 2}, {"driver": "y", "s": "more"}, {"p": "c", "x": 2.5}]
CASE = Case("continued", [FIRST, SECOND], hive_columns="year,p,~driver", sort_column="n", stats_columns="n,x")


@pytest.fixture
def catalog() -> Iterator[CatalogServer]:
    with CatalogServer() as server:
        yield server


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / BUCKET


def _write_theirs(batch: tuple[Record, ...], lake: Path, catalog: CatalogServer, case: Case = CASE) -> Outcome:
    sink = Theirs(case, lake, catalog)
    try:
        return sink.write(batch)
    finally:
        sink.close()


def _folders(outcome: Outcome) -> set[str]:
    assert outcome.error is None
    return {file.folder for file in outcome.files}


def _requests(outcome: Outcome) -> list[str]:
    return [request.about for request in outcome.requests]


def _read(lake: Path, columns: str) -> list[tuple[Any, ...]]:
    """The whole table, as DuckDB reads it: data files alone, for ``**`` would find the index files too."""
    source = f"'{lake / ROOT}/year=*/p=*/*.parquet', union_by_name = true, hive_types_autocast = false"
    return duckdb.execute(f"SELECT {columns} FROM read_parquet({source}) ORDER BY row").fetchall()  # noqa: S608


ROWS = [
    ("a", "x", 1, None, None),
    (QUIX_NULL, "y", None, "text", None),
    ("b", None, None, None, 1.5),
    ("a", "z", 2, None, None),
    (QUIX_NULL, "y", None, "more", None),
    ("c", None, None, None, 2.5),
]


def test_a_table_of_theirs_is_continued_here(
    spark: SparkWriter, lake: Path, catalog: CatalogServer, tmp_path: Path
) -> None:
    begun = _write_theirs(CASE.numbered[0], lake, catalog)
    ours = Ours(CASE, lake, tmp_path / "scratch", catalog, spark)
    types = ours.schema.current.columns
    went_on = ours.write(CASE.numbered[1])
    ours.close()

    assert ours.spec.null_value == QUIX_NULL
    assert types == {
        "driver": pa.string(),
        "n": pa.int64(),
        "s": pa.string(),
        "x": pa.float64(),
        "row": pa.int64(),
        "ts_ms": pa.int64(),
        "__key": pa.string(),
    }
    assert _folders(begun) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=b"}
    assert _folders(went_on) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=c"}
    assert _requests(went_on) == ["POST sources", "POST manifest/add-files"], "the table is known, with all properties"
    assert _read(lake, "p, driver, n, s, x") == ROWS
    assert len(catalog.files(TABLE)) == 6


def test_a_table_of_ours_is_continued_by_theirs(
    spark: SparkWriter, lake: Path, catalog: CatalogServer, tmp_path: Path
) -> None:
    ours = Ours(CASE, lake, tmp_path / "scratch", catalog, spark)
    begun = ours.write(CASE.numbered[0])
    ours.close()
    went_on = _write_theirs(CASE.numbered[1], lake, catalog)

    assert _folders(begun) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=b"}
    assert _folders(went_on) == {"year=2024/p=a", f"year=2024/p={QUIX_NULL}", "year=2024/p=c"}
    assert _requests(went_on) == ["POST sources", "POST manifest/add-files"], "the table is known, with all properties"
    assert _read(lake, "p, driver, n, s, x") == ROWS
    assert len(catalog.files(TABLE)) == 6


def test_types_of_their_files_hold_for_what_comes_here(
    spark: SparkWriter, lake: Path, catalog: CatalogServer, tmp_path: Path
) -> None:
    case = Case(
        "types",
        [[{"p": "a", "n": 1, "void": None}], [{"p": "a", "n": 2.0, "void": "x"}, {"p": "a", "n": "y"}]],
        "year,p",
    )
    _write_theirs(case.numbered[0], lake, catalog, case)
    ours = Ours(case, lake, tmp_path / "scratch", catalog, spark)
    ours.write(case.numbered[1])
    ours.close()

    assert _read(lake, "n, void, _rescued_data") == [(1, None, None), (2, "x", None), (None, None, '{"n":"y"}')]
