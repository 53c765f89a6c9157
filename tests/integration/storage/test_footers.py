"""Footers of files in a store."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import FatalError
from app.table.parquet_reader import read_footer
from tests.integration.storage.conftest import Place


@pytest.mark.parametrize("columns", [1, 2_000])  # a footer of less and of more than what is read first
def test_a_footer_is_read_as_it_is_in_the_file(local_place: Place, tmp_path: Path, columns: int) -> None:
    store, path = local_place.store, tmp_path / "f.parquet"
    pq.write_table(pa.table({f"column {number}": [number, None] for number in range(columns)}), path)
    size = store.upload(path, "t/f.parquet").size

    footer = read_footer(store, "t/f.parquet", size)

    assert footer.equals(pq.read_metadata(path))
    assert (footer.num_rows, footer.num_columns) == (2, columns)
    with pytest.raises(FatalError, match=r"t/f\.parquet: the store returned .* bytes instead of"):
        read_footer(store, "t/f.parquet", size + 1)
    with pytest.raises(FatalError, match=r"t/gone\.parquet.*deleted meanwhile"):
        read_footer(store, "t/gone.parquet", size)
