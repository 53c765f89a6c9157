"""What the query API is told of new files, and that nothing waits for it or fails by it."""

import logging
from collections.abc import Iterator
from threading import Event

import pytest

from app.errors import ConfigError, RetryableError
from app.model import DataFile
from app.parts.quix.catalog import QuixCatalog
from app.parts.quix.catalog_address import QuixTarget
from app.parts.quix.query_api import QueryApi
from tests.fakes.canned_server import Answer, CannedServer
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.unit.parts.quix.catalog_bench import WHEN, created, footer_of, stored

LONG = 30.0
FILE = DataFile("k", {"p": "a"}, 2, 5, last_modified=WHEN, footer=footer_of({"n": [1, 2]}), uri="s3://lake/k")


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with CannedServer(Answer(body=b"{}")) as running:
        yield running


def tell(server: CannedServer, *batches: list[DataFile], token: str | None = "t0ken-of-ours") -> None:  # noqa: S107
    api = QueryApi(QuixTarget(server.url, token, "space", "a table"))
    for files in batches:
        api.files_added(files)
    api.close(LONG)


def test_files_are_told_without_their_bounds(server: CannedServer) -> None:
    tell(server, [FILE])

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/tables/a%20table/files-added")
    assert request.headers["authorization"] == "Bearer t0ken-of-ours"
    assert request.json() == {
        "namespace": "space",
        "files": [
            {
                "file_path": "s3://lake/k",
                "file_size": 5,
                "last_modified": WHEN.isoformat(),
                "partition_values": {"p": "a"},
                "row_count": 2,
            }
        ],
    }


def test_batches_are_told_in_their_order_and_large_ones_in_parts(server: CannedServer) -> None:
    many = [stored(f"{number}.parquet") for number in range(1_500)]
    tell(server, [FILE], many, token=None)

    assert [len(request.json()["files"]) for request in server.requests] == [1, 1_000, 500]
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("status", [302, 401, 404, 503])
def test_a_refusal_is_a_warning(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with CannedServer(Answer(status, b"not you, t0ken-of-ours")) as server:
        tell(server, [FILE], [FILE])

    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1, "the second refusal says nothing new"
    assert f"notifying the query API at {server.url} of new files of table space.a table: " in warnings[0]
    assert f"the query API answered {status}" in warnings[0]
    assert "The files are in the lake and in the catalog" in warnings[0]
    assert "t0ken-of-ours" not in warnings[0]


def test_nobody_waits_for_one_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    go_on = Event()
    with CannedServer(Answer(200, b"{}"), before=go_on.wait) as server:
        api = QueryApi(QuixTarget(server.url, None, "space", "t"), most_waiting=3)
        for _ in range(20):
            api.files_added([FILE])  # would not return for the 17th if it waited
        api.close(0.0)
        go_on.set()

    assert "the queue is full" in caplog.text


def test_a_token_that_cannot_be_sent_is_named() -> None:
    with pytest.raises(ConfigError, match="Quix__Lakehouse__Query__AuthToken contains a blank"):
        QueryApi(QuixTarget("http://127.0.0.1", "a b", "space", "t"))


def test_it_is_told_of_what_the_catalog_has_registered_and_of_nothing_else(server: CannedServer) -> None:
    with CatalogServer() as registering:
        query_api = QuixTarget(server.url, None, "default", "sensors")
        target = QuixTarget(registering.url, registering.token, "default", "sensors", query_api=query_api)
        catalog = QuixCatalog(target, announces=True)
        created(catalog)
        registering.trouble(Trouble(status=503))
        with pytest.raises(RetryableError):
            catalog.add_files([stored("lost.parquet", place="a", day="15")], None)
        catalog.add_files([stored("known.parquet", place="a", day="15")], None)
        catalog.close(LONG)
    [request] = server.requests
    assert [each["file_path"].rpartition("/")[2] for each in request.json()["files"]] == ["known.parquet"]
