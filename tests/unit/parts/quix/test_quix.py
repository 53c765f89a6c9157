"""The connector's side of the Quix catalog's contract, over real HTTP."""

import pytest

from app.errors import FatalError, RetryableError
from app.parts.quix.catalog import QuixCatalog
from app.parts.quix.catalog_address import QuixTarget
from app.table.existing_table import CatalogTable
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.support.batches import spec
from tests.unit.parts.quix.catalog_bench import LOCATION, created, stored


@pytest.mark.parametrize(
    ("below", "token", "told"),
    [
        ("", "wr0ng", r"401.*Check CATALOG_AUTH_TOKEN"),
        ("", None, r"401.*Set CATALOG_AUTH_TOKEN"),
        ("/v9", "catalog-token", r"connecting to the catalog at http.*404.*CATALOG_URL with its path"),
    ],
)
def test_a_wrong_address_or_token_is_found_at_the_check_though_the_health_page_is_open_to_all(
    server: CatalogServer, below: str, token: str | None, told: str
) -> None:
    with pytest.raises(FatalError, match=told) as caught:
        QuixCatalog(QuixTarget(f"{server.url}{below}", token, "default", "sensors")).check()
    assert "wr0ng" not in str(caught.value)
    assert ("authorization" in server.requests[0].headers) == bool(token)


def test_the_check_hands_over_the_table_that_it_read(catalog: QuixCatalog, server: CatalogServer) -> None:
    assert catalog.check() is None
    table = created(catalog)
    server.requests.clear()
    assert catalog.check() == table
    assert [request.method for request in server.requests] == ["GET", "GET"], "the health page and the table"


def test_a_table_is_created_with_an_empty_spec_and_what_is_expected(
    catalog: QuixCatalog, server: CatalogServer
) -> None:
    properties = {
        "created_by": "quix-ts-datalake-sink",
        "auto_discovered": "false",
        "expected_partitions": ["place", "day"],
        "timestamp_column": "ts_ms",
    }
    assert created(catalog) == catalog.table() == CatalogTable(LOCATION, (), properties)

    table = server.tables["default.sensors"]
    assert table.partition_spec == []
    assert table.properties == properties


def test_files_are_registered_in_one_request_and_fill_the_spec(catalog: QuixCatalog, server: CatalogServer) -> None:
    created(catalog)
    catalog.add_files(
        [stored("f.parquet", place="São Paulo/1 😀", day="15"), stored("g.parquet", place="b", day="16")], "t"
    )

    assert [request.path for request in server.requests if request.method == "POST"] == [
        "/api/v1/namespaces/default/tables/sensors/manifest/add-files"
    ]
    first, second = server.files("sensors")
    assert first == {
        "file_path": "s3://lake/data/sensors/place=São Paulo/1 😀/day=15/f.parquet",
        "file_size": 1234,
        "last_modified": "2024-01-15T12:30:00+00:00",
        "partition_values": {"place": "São Paulo/1 😀", "day": "15"},
        "row_count": 10,
    }
    assert second["partition_values"] == {"place": "b", "day": "16"}
    table = catalog.table()
    assert table is not None
    assert (table.location, table.partition_spec) == (LOCATION, ("place", "day"))


def test_the_table_of_a_quicker_creator_is_the_one_that_counts(server: CatalogServer, catalog: QuixCatalog) -> None:
    other = QuixCatalog(QuixTarget(server.url, server.token, "default", "sensors"))
    other.create_table("s3://lake/elsewhere", spec("day"))

    table = created(catalog)

    assert (table.location, table.properties["expected_partitions"]) == ("s3://lake/elsewhere", ["day"])


def test_a_conflict_is_settled_by_reading_and_tried_again_where_no_table_is_there(
    server: CatalogServer, catalog: QuixCatalog
) -> None:
    server.trouble(Trouble(status=409))

    with pytest.raises(RetryableError, match=r"creating table default\.sensors in the catalog.*409.*does not exist"):
        created(catalog)
    created(catalog)
    server.trouble(Trouble(status=409, body=b'{"error": "exists"}'))
    assert created(catalog).location == LOCATION


def test_names_are_encoded_in_paths(server: CatalogServer) -> None:
    catalog = QuixCatalog(QuixTarget(server.url, server.token, "my space/ü", "a?b#c%2F"))
    created(catalog)

    assert server.requests[0].path == "/api/v1/namespaces/my%20space%2F%C3%BC/tables/a%3Fb%23c%252F"
    assert list(server.tables) == ["my space/ü.a?b#c%2F"]


def test_one_connection_serves_many_requests(server: CatalogServer, catalog: QuixCatalog) -> None:
    catalog.check()
    created(catalog)
    for _ in range(3):
        catalog.add_files([stored(place="a", day="15")], "sensors")

    assert len({request.client for request in server.requests}) == 1
