"""The catalog of Quix over real HTTP."""

from collections.abc import Iterator

import pytest

from app.catalog.quix import QuixCatalog
from app.catalog.targets import QuixTarget
from tests.fakes.catalog_server import CatalogServer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no authorities of the machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[CatalogServer]:
    with CatalogServer() as running:
        yield running


@pytest.fixture
def catalog(server: CatalogServer) -> QuixCatalog:
    return QuixCatalog(QuixTarget(server.url, server.token, "default", "sensors"))
