"""The catalog of Quix over real HTTP, for tests: a server of our own, and what is often asked of it."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from app.catalog.base import CatalogTable, TableProperties
from app.catalog.quix import QuixCatalog
from app.errors import ConnectorError
from app.model import StoredFile
from tests.fakes.catalog_server import CatalogServer

LOCATION = "s3://lake/data/sensors"
WANTED = TableProperties(("place", "day"), "ts_ms")
WHEN = datetime(2024, 1, 15, 12, 30, tzinfo=UTC)


@contextlib.contextmanager
def running_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogServer]:
    """A server that is asked without any proxy or authorities of the machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with CatalogServer() as running:
        yield running


def stored(name: str = "f.parquet", **values: str) -> StoredFile:
    folders = "".join(f"{column}={value}/" for column, value in values.items())
    key = f"data/sensors/{folders}{name}"
    return StoredFile(key, f"s3://lake/{key}", 1234, 10, values, WHEN)


def created(catalog: QuixCatalog) -> CatalogTable:
    return catalog.create_table(LOCATION, WANTED)


def error_of_registering(catalog: QuixCatalog) -> ConnectorError:
    with pytest.raises(ConnectorError, match=r"registering 1 file of table default\.sensors") as caught:
        catalog.add_files([stored(place="a", day="15")], "sensors")
    return caught.value
