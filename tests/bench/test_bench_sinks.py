"""How far a peer is, and what its table holds, is read from what it writes by itself."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.lake import check_table
from bench.messages import Workload, expected_totals, records
from bench.sinks import iceberg_table
from bench.sinks.streaming import CommittedTriggers
from bench.totals import WrongRowsError

WORKLOAD = Workload(480, 4)


def _write_trigger(checkpoint: Path, number: int, offsets: dict[str, int], committed: bool) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({"readings": offsets})]
    (checkpoint / "offsets" / str(number)).write_text("\n".join(lines))
    if committed:
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_a_streaming_query_has_committed_the_offsets_of_its_last_finished_trigger(tmp_path: Path) -> None:
    progress = CommittedTriggers(tmp_path)
    assert progress.rows() == 0

    for number in range(11):  # by number, not by name: 10 comes after 9
        _write_trigger(tmp_path, number, {"0": 10 * number, "1": number}, committed=True)
    _write_trigger(tmp_path, 11, {"0": 500, "1": 500}, committed=False)

    assert progress.rows() == 110


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
