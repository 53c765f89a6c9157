"""Offsets read from a file's column on every store."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.commands.audit.offset_reader import read_ranges
from app.commands.audit.ranges import ranges_of
from app.errors import FatalError
from tests.integration.storage.place import Place


@pytest.mark.parametrize("rows", [0, 5, 60_000])  # a file in one request, and one in several row groups and requests
def test_the_offsets_of_a_file_are_read_whatever_else_is_in_it(place: Place, tmp_path: Path, rows: int) -> None:
    random = Random(rows)  # noqa: S311 - offsets to compare with, no secret
    offsets = random.sample(range(2**40, 2**40 + 2 * rows), rows)
    path = tmp_path / "f.parquet"
    columns = {"text": [random.randbytes(8) for _ in offsets], "__offset": pa.array(offsets, pa.int64())}
    pq.write_table(pa.table(columns), path, row_group_size=20_000)
    stored = place.store.upload(path, "t/f.parquet")

    found = read_ranges(place.store, "t/f.parquet", stored.size, "__offset")

    expected = ranges_of(pa.array(offsets, pa.int64()))
    assert found == ({(): expected} if rows else {})
    assert read_ranges(place.store, "t/f.parquet", stored.size, "offset") is None


def test_a_file_that_is_broken_or_gone_is_named(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(b"no Parquet at all")
    stored = place.store.upload(path, "t/f.parquet")

    with pytest.raises(FatalError, match=r"column __offset of .*/t/f\.parquet: it is no sound Parquet file"):
        read_ranges(place.store, "t/f.parquet", stored.size, "__offset")
    with pytest.raises(FatalError, match=r"t/gone\.parquet.*deleted meanwhile"):
        read_ranges(place.store, "t/gone.parquet", 100, "__offset")
