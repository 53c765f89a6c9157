"""What is often asked of a catalog."""

from datetime import UTC, datetime
from typing import TypeVar

import pytest

from app.catalog.quix import QuixCatalog
from app.errors import ConnectorError
from app.model import StoredFile
from app.table.catalog_table import CatalogTable
from tests.support.batches import spec

LOCATION = "s3://lake/data/sensors"
WANTED = spec("place", "day")
Kind = TypeVar("Kind", bound=ConnectorError)
WHEN = datetime(2024, 1, 15, 12, 30, tzinfo=UTC)


def stored(name: str = "f.parquet", **values: str) -> StoredFile:
    folders = "".join(f"{column}={value}/" for column, value in values.items())
    key = f"data/sensors/{folders}{name}"
    return StoredFile(key, f"s3://lake/{key}", 1234, 10, values, WHEN)


def created(catalog: QuixCatalog) -> CatalogTable:
    return catalog.create_table(LOCATION, WANTED)


def error_of_registering(catalog: QuixCatalog, kind: type[Kind]) -> Kind:
    with pytest.raises(kind, match=r"registering 1 file of table default\.sensors") as caught:
        catalog.add_files([stored(place="a", day="15")], "sensors")
    return caught.value
