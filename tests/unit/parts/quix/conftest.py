"""The catalog of Quix over real HTTP."""

from collections.abc import Iterator

import pytest

from app.parts.quix.catalog import QuixCatalog
from app.parts.quix.catalog_address import QuixTarget
from tests.fakes.catalog_server import CatalogServer


@pytest.fixture
def server() -> Iterator[CatalogServer]:
    with CatalogServer() as running:
        yield running


@pytest.fixture
def catalog(server: CatalogServer) -> QuixCatalog:
    return QuixCatalog(QuixTarget(server.url, server.token, "default", "sensors"))
