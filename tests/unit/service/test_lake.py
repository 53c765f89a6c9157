"""Opening a table of an Iceberg catalog at the start."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from app.parts.iceberg.table import IcebergTable
from app.retries import Waits
from app.service import lake as module
from app.table.existing_table import CatalogTable
from app.table.layout import PartitionSpec
from tests.support.environment import local_settings
from tests.unit.parts.iceberg.iceberg_bench import IcebergBench


class Choosing(IcebergTable):
    def create_table(self, location: str, spec: PartitionSpec) -> CatalogTable:
        return super().create_table(location.replace("data/readings", "chosen/readings_1"), spec)


def test_a_missing_table_is_created_and_written_where_the_catalog_has_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def new_catalog(*_: object, **__: object) -> IcebergTable:
        catalog = IcebergBench(tmp_path).new_member()
        catalog.__class__ = Choosing
        return catalog

    monkeypatch.setattr(module, "new_catalog", new_catalog)
    settings = local_settings(tmp_path, CATALOG_TYPE="iceberg", CATALOG_URL="http://catalog", HIVE_COLUMNS="place")
    for _ in range(2):
        with ExitStack() as ends:
            lake = module.open_lake(settings, Waits(), module.new_store(settings), ends)
            lake.registrar.prepare()
        assert (lake.location.root, lake.spec.columns) == ("chosen/readings_1", ("place",))
