"""Services behind proxies that can be told what goes wrong."""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame

from app.storage.s3.client import Limits
from app.storage.s3.store import S3Store
from dev.broker import Broker
from dev.minio import LocalMinio
from tests.fakes.catalog_server import CatalogServer
from tests.faults.connector_thread import Place
from tests.faults.members import Table
from tests.faults.proxy import FaultProxy
from tests.faults.site import Site
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="session")
def shared_site(s3_server: LocalMinio) -> Iterator[Site]:
    """One bucket and catalog for all tables, and a store that does not try again by itself.

    Every fault then meets the connector's own code; what becomes of boto3's tries is looked at in tests of their own.
    A request that is held is never given up.
    """
    bucket = f"faults-{uuid.uuid4().hex[:12]}"
    client = s3_server.client()
    client.create_bucket(Bucket=bucket)
    with (
        CatalogServer() as catalog,
        FaultProxy(s3_server.endpoint_url) as to_store,
        FaultProxy(catalog.url) as to_catalog,
    ):
        store = S3Store(
            replace(s3_server.target(bucket), endpoint_url=to_store.url),
            max_workers=4,
            limits=Limits(read_timeout=PATIENCE, attempts=1),
        )
        store.connect("data/")
        yield Site(s3_server, client, bucket, catalog, to_store, to_catalog, store)


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """All is well at its beginning and end."""
    shared_site.clear()
    yield shared_site
    shared_site.clear()


@pytest.fixture
def table(site: Site) -> Table:
    return Table(site)


def same(sdf: StreamingDataFrame, app: Application) -> StreamingDataFrame:
    """For the framework's lane: changes nothing."""
    return sdf


def stateless(sdf: StreamingDataFrame) -> StreamingDataFrame:
    """For the plain lane: edited, and changes nothing."""
    return sdf.update(lambda _: None)


@pytest.fixture(
    params=[
        pytest.param(None, id="plain"),
        pytest.param(stateless, id="transforming", marks=pytest.mark.night),
        pytest.param(same, id="framework"),
    ]
)
def each_lane(request: pytest.FixtureRequest, place: Place) -> None:
    """The connectors of the place go by this lane."""
    place.transform = request.param


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    kafka: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Place]:
    """A topic, of one partition or of as many as an indirect parameter says."""
    caplog.set_level(logging.INFO)
    with Place(kafka, tmp_path, monkeypatch, getattr(request, "param", 1)) as made:
        yield made
