"""What the catalog is told around the registration of files."""

from datetime import UTC, datetime

import pytest

from app.catalog.base import CatalogTable, TableProperties
from app.delivery import Registrar
from app.errors import ConfigError
from app.model import StoredFile
from tests.fakes.memory_catalog import MemoryCatalog

LOCATION = "s3://lake/data/t"
KEY = "data/t/place=a/f.parquet"
FILE = StoredFile(KEY, f"s3://lake/{KEY}", 1, 1, {"place": "a"}, datetime(2024, 1, 15, tzinfo=UTC))
WANTED = TableProperties(("place", "driver"), "ts_ms", ("driver",), "lap", ("speed",))


def registrar(catalog: MemoryCatalog) -> Registrar:
    return Registrar(catalog, LOCATION, WANTED, "laps", None)


def test_a_new_table_is_created_as_the_settings_say_and_its_source_named_once() -> None:
    catalog = MemoryCatalog()
    registering = registrar(catalog)
    registering.register([FILE])
    registering.register([FILE])

    assert catalog.created == [(LOCATION, ("place", "driver"), "ts_ms")]
    assert catalog.wanted == [], "it was created so"
    assert catalog.sources == ["laps"]
    assert catalog.requests == [[FILE], [FILE]]


def test_a_known_table_is_brought_in_line_once() -> None:
    catalog = MemoryCatalog(CatalogTable(LOCATION, ("place", "driver")))
    registering = registrar(catalog)
    registering.register([FILE])
    registering.register([FILE])

    assert catalog.created == []
    assert catalog.wanted == [WANTED]
    assert catalog.sources == ["laps"]


def test_a_table_without_the_virtual_partition_is_left_alone() -> None:
    catalog = MemoryCatalog(CatalogTable(LOCATION, ("place",)))
    with pytest.raises(ConfigError, match=r"\[place\], HIVE_COLUMNS says \[place, driver\]"):
        registrar(catalog).register([FILE])

    assert (catalog.wanted, catalog.sources, catalog.requests) == ([], [], [])
