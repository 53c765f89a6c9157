"""What the benchmark reads of an Iceberg table in a real catalog."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from bench.sinks.base import TABLE
from bench.sinks.iceberg_table import CommittedSnapshots, create_table
from bench.timeline import LandedFile
from bench.totals import WrongRowsError
from dev.iceberg_catalog import LocalIcebergCatalog
from tests.support.iceberg_readers import pyiceberg_catalog


def test_the_rows_of_the_current_snapshot_count(iceberg_catalog: LocalIcebergCatalog, bucket: str) -> None:
    snapshots = CommittedSnapshots(iceberg_catalog, bucket)
    assert snapshots.rows() == 0  # before there is a table
    create_table(iceberg_catalog, bucket)
    assert snapshots.rows() == 0
    table = pyiceberg_catalog(iceberg_catalog).load_table((bucket, TABLE))
    with table.update_spec() as spec:
        spec.remove_field("day")  # to write such files, pyiceberg would need one more package

    for rows in (1, 2):
        table.append(pa.table({"ts_ms": [datetime(2025, 3, 30, tzinfo=UTC)], "location": ["Rome"], "seq": [rows]}))
        assert snapshots.rows() == rows

    snapshots.check([LandedFile(0.0, 1, 100)] * 2)
    with pytest.raises(WrongRowsError, match="in the table"):
        snapshots.check([LandedFile(0.0, 1, 100)] * 3)
