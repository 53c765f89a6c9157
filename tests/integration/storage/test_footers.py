"""Footers and the table's schema on every store."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import FatalError
from app.table.parquet_reader import read_footer
from app.table.schema import TableSchema
from app.table.schema_store import SchemaStore
from tests.integration.storage.place import Place


@pytest.mark.parametrize("columns", [1, 2_000])  # a footer of less and of more than what is read first
def test_a_footer_is_read_as_it_is_in_the_file(place: Place, tmp_path: Path, columns: int) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({f"column {number}": [number, None] for number in range(columns)}), path)
    stored = place.store.upload(path, "t/f.parquet")

    footer = read_footer(place.store, "t/f.parquet", stored.size)

    assert footer.equals(pq.read_metadata(path))
    assert (footer.num_rows, footer.num_columns) == (2, columns)


def test_a_file_that_is_gone_or_shorter_than_listed_is_named(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    stored = place.store.upload(path, "t/f.parquet")

    with pytest.raises(FatalError, match=r"t/f\.parquet: .* bytes came where .* were asked for"):
        read_footer(place.store, "t/f.parquet", stored.size + 1)
    with pytest.raises(FatalError, match=r"t/gone\.parquet.*deleted meanwhile"):
        read_footer(place.store, "t/gone.parquet", stored.size)


def test_members_that_extend_a_table_at_once_lose_no_column(deciding_place: Place) -> None:
    members, rounds = 4, 3
    start = threading.Barrier(members)

    def extend(member: int) -> None:
        keeper = SchemaStore(deciding_place.store, "data/t", {})
        keeper.open()
        start.wait()
        for number in range(rounds):
            wanted = TableSchema({f"c{member}_{number}": pa.int64(), "shared": pa.float64() if member else pa.int64()})
            assert keeper.extend(wanted).merge(wanted) == keeper.current

    with ThreadPoolExecutor(members) as pool:
        list(pool.map(extend, range(members)))

    last = SchemaStore(deciding_place.store, "data/t", {})
    last.open()
    assert last.current.columns["shared"] == pa.float64()
    assert len(last.current.columns) == members * rounds + 1
