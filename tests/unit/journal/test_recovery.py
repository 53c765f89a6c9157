"""A former owner's files get to the catalog as their owner would have registered them."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.catalog.registrar import Registrar
from app.errors import RetryableError
from app.journal.settle import roll_forward
from app.model import DataFile
from app.table.existing_table import TableLocation
from tests.fakes.memory_catalog import MemoryCatalog
from tests.fakes.moody_store import MoodyStore
from tests.support.batches import spec
from tests.unit.delivery.pipeline_line import ROOT

KEY = "data/t/p=a/data_1.parquet"


class Bench:
    def __init__(self, tmp_path: Path, *, has_catalog: bool = True) -> None:
        self.lake = tmp_path
        self.catalog = MemoryCatalog()
        self.store = MoodyStore(tmp_path)
        place = TableLocation(self.store.uri, ROOT)
        catalog = self.catalog if has_catalog else None
        registrar = Registrar(catalog, place, spec("p"), "sensors", None)
        self.register = partial(roll_forward, self.store, registrar, map)

    def file(self, *values: int) -> DataFile:
        path = self.lake / KEY
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"v": pa.array(values, pa.int64()), "w": [0.5] * len(values)}), path)
        size = path.stat().st_size
        return DataFile(KEY, {"p": "a"}, len(values), size)


def test_a_file_is_registered_with_what_the_journal_and_its_footer_say(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    file = bench.file(3, 1, 2)
    bench.register([file], ())
    ((registered,),) = bench.catalog.requests
    assert (registered.key, registered.uri, registered.size, registered.rows, registered.partition_values) == (
        KEY,
        f"{bench.store.uri}/{KEY}",
        file.size,
        3,
        {"p": "a"},
    )
    assert registered.last_modified.timestamp() == pytest.approx((tmp_path / KEY).stat().st_mtime)
    assert registered.footer == pq.read_metadata(tmp_path / KEY)


@pytest.mark.parametrize("has_catalog", [True, False])
def test_without_a_catalog_or_files_nothing_is_read(tmp_path: Path, *, has_catalog: bool) -> None:
    bench = Bench(tmp_path, has_catalog=has_catalog)
    files = [DataFile(KEY, {}, 1, 1)]
    bench.register([] if has_catalog else files, ())
    assert (bench.catalog.requests, bench.catalog.looked_up) == ([], 0)


def test_a_file_that_is_gone_meanwhile_registers_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    file = bench.file(1)
    gone = replace(file, key="data/t/p=a/data_2.parquet")
    with pytest.raises(RetryableError, match=r"registering file://.*data_2.parquet: it was there .* bring it back"):
        bench.register([file, gone], ())
    assert bench.catalog.requests == []
