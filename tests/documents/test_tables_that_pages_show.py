"""Folders in docs/settings.md are those of the code; the statement in docs/deploy/quix-cloud.md reads such a table."""

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.convert.partition_values import partition_columns
from app.table.layout import QUIX_NULL, folder
from tests.support.batches import row, spec
from tests.support.environment import load

DOCS = Path(__file__).parents[2] / "docs"
MARCH, APRIL = 1_743_292_800_000, 1_743_508_800_000  # 2025-03-30 and 2025-04-01, in ms
SHOWN = re.findall(
    r"^\| (?:`([\w,]+)`|empty) \| `sensor-data/(\S*)` \|", (DOCS / "settings.md").read_text(), re.MULTILINE
)


def folder_of(columns: str, **values: object) -> str:
    found = load(HIVE_COLUMNS=columns).spec.columns
    texts = partition_columns([row(values)], spec(*found, null_value=QUIX_NULL))
    return folder(dict(zip(found, (text[0].as_py() for text in texts), strict=True)))


def test_the_page_shows_three_kinds_of_folders() -> None:
    assert len(SHOWN) == 3


@pytest.mark.parametrize(("columns", "shown"), SHOWN)
def test_a_record_goes_to_the_folder_that_the_page_shows(columns: str, shown: str) -> None:
    assert folder_of(columns, location="Berlin", ts_ms=MARCH) == shown.rstrip("/")


@pytest.mark.parametrize("reads_numbers", [False, True], ids=["months are text", "months are numbers"])
def test_the_statement_for_the_lakehouse_gives_the_rows_of_a_month(tmp_path: Path, reads_numbers: bool) -> None:
    """The engine there is DuckDB, whose default makes numbers of folders such as ``month=03``."""
    rows: list[tuple[str | None, int, float]] = [("Berlin", MARCH, 1.5), ("Berlin", MARCH, 2.5), ("Rome", APRIL, 9.0)]
    for number, (place, at, degrees) in enumerate([*rows, (None, MARCH, 7.0)]):
        path = tmp_path / folder_of("location,year,month", location=place, ts_ms=at) / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"ts_ms": [at], "temperature": [degrees]}), path)
    [statement] = re.findall(r"```sql\n(.*?)```", (DOCS / "deploy/quix-cloud.md").read_text(), re.DOTALL)
    files = f"read_parquet('{tmp_path}/*/*/*/*.parquet', hive_types_autocast = {reads_numbers})"
    with duckdb.connect() as connection:
        connection.execute(f'CREATE VIEW "sensor-data" AS FROM {files}')
        assert connection.sql(statement).fetchall() == [("Berlin", 2, 2.0)]
