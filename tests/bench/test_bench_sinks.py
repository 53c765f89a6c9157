"""The table of a peer that writes Iceberg is compared by what its files hold."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.lake import check_table
from bench.messages import Workload, expected_totals, records
from bench.sinks import iceberg_table
from bench.totals import WrongRowsError

WORKLOAD = Workload(480, 4)


def _iceberg(folder: Path, *, spoil: float = 0.0) -> str:
    """A table, and how it is read."""
    rows = [json.loads(value or b"{}") for _, value, _, _ in records(WORKLOAD)]
    for row in rows:
        row["ts_ms"] = datetime.fromtimestamp(row["ts_ms"] / 1000, UTC)
    rows[7]["humidity"] += spoil
    # one of the folders that Iceberg makes; they say nothing
    data = folder / "data" / "day=2025-03-31" / "location=elsewhere"
    data.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), data / "00000.parquet")
    return iceberg_table.SOURCE.format(folder=folder)


def test_the_files_of_an_iceberg_table_are_compared_by_their_columns(tmp_path: Path) -> None:
    good, spoilt = _iceberg(tmp_path / "good"), _iceberg(tmp_path / "spoilt", spoil=0.1)

    check_table(tmp_path / "good", expected_totals(WORKLOAD), good)
    with pytest.raises(WrongRowsError, match="humidity"):
        check_table(tmp_path / "spoilt", expected_totals(WORKLOAD), spoilt)
