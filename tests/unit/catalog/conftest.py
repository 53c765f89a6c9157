"""The catalog of Quix over real HTTP."""

from collections.abc import Iterator

import pytest

from app.catalog.quix import QuixCatalog
from tests.fakes.catalog_server import CatalogServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogServer]:
    """A server that is asked without any proxy or authorities of the machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with CatalogServer() as running:
        yield running


@pytest.fixture
def catalog(server: CatalogServer) -> QuixCatalog:
    return QuixCatalog(server.url, server.token, "default", "sensors")
