"""What is often asked of a catalog."""

from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import ConnectorError
from app.model import DataFile
from app.parts.quix.catalog import QuixCatalog
from app.table.existing_table import CatalogTable
from tests.support.batches import spec

LOCATION = "s3://lake/data/sensors"
WANTED = spec("place", "day")
Kind = TypeVar("Kind", bound=ConnectorError)
WHEN = datetime(2024, 1, 15, 12, 30, tzinfo=UTC)


def stored(name: str = "f.parquet", **values: str) -> DataFile:
    folders = "".join(f"{column}={value}/" for column, value in values.items())
    key = f"data/sensors/{folders}{name}"
    return DataFile(key, values, 10, 1234, Path(), WHEN, footer_of({"text": ["a"] * 10}), f"s3://lake/{key}")


def footer_of(columns: Mapping[str, Any]) -> pq.FileMetaData:
    written = BytesIO()
    pq.write_table(pa.table(columns), written)
    return pq.read_metadata(written)


def created(catalog: QuixCatalog) -> CatalogTable:
    return catalog.create_table(LOCATION, WANTED)


def error_of_registering(catalog: QuixCatalog, kind: type[Kind]) -> Kind:
    with pytest.raises(kind, match=r"registering 1 file of table default\.sensors") as caught:
        catalog.add_files([stored(place="a", day="15")], "sensors")
    return caught.value
