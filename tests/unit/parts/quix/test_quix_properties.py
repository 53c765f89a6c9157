"""What the catalog is told of a table beside its files: virtual partitions, order, zone maps, sources."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from quixstreams import __version__ as quixstreams_version

from app.parts.quix.catalog import QuixCatalog
from app.parts.quix.catalog_address import QuixTarget
from app.table.layout import PartitionSpec
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.support.batches import spec
from tests.unit.parts.quix.catalog_bench import LOCATION, footer_of, stored

PLAIN = spec("place", "driver")
FULL = replace(PLAIN, columns=("place",), sort_column="lap", stats_columns=("speed", "lap"))
SPEED = {"type": "numeric", "min": 1.0, "max": 2.0, "null_count": 0, "value_count": 3}
SOURCE = {
    "source_type": "kafka",
    "workspace_id": "acme-prod",
    "topic": "laps",
    "properties": {"sink": "quix-ts-datalake-sink", "quixstreams_version": quixstreams_version},
}


@pytest.fixture
def catalog(server: CatalogServer) -> QuixCatalog:
    return QuixCatalog(QuixTarget(server.url, server.token, "default", "sensors", "acme-prod", ("speed",)))


def properties(server: CatalogServer) -> dict[str, Any]:
    return dict(server.tables["default.sensors"].properties)


def synced(catalog: QuixCatalog, wanted: PartitionSpec) -> None:
    table = catalog.table()
    assert table is not None
    catalog.sync_properties(table, wanted)


def changes(server: CatalogServer) -> list[Any]:
    return [request.body["properties"] for request in server.requests if request.method == "PATCH"]


def test_a_table_with_virtual_partitions_has_its_whole_spec_from_the_start(
    catalog: QuixCatalog, server: CatalogServer
) -> None:
    table = catalog.create_table(LOCATION, FULL)

    assert table.partition_spec == ("place", "driver")
    assert properties(server) == {
        "created_by": "quix-ts-datalake-sink",
        "auto_discovered": "false",
        "expected_partitions": ["place", "driver"],
        "virtual_partitions": ["driver"],
        "timestamp_column": "ts_ms",
        "sort_column": "lap",
        "stats_columns": ["lap", "speed"],
    }


def test_files_have_the_values_of_their_folders_alone_their_zone_maps_and_their_source(
    catalog: QuixCatalog, server: CatalogServer
) -> None:
    catalog.create_table(LOCATION, FULL)
    catalog.add_files(
        [replace(stored(place="a"), footer=footer_of({"speed": [1.0, 2.0, 2.0], "gear": [1, 2, 3]}))], "laps"
    )

    [file] = server.files("sensors")
    assert file["partition_values"] == {"place": "a"}
    assert file["column_stats"] == {"speed": SPEED}
    assert server.requests[-1].body["source"] == SOURCE


def test_what_is_missing_is_filled_in_with_one_request(catalog: QuixCatalog, server: CatalogServer) -> None:
    catalog.create_table(LOCATION, PLAIN)
    server.tables["default.sensors"].properties = {}
    synced(catalog, FULL)
    synced(catalog, FULL)

    assert changes(server) == [{"stats_columns": ["lap", "speed"], "timestamp_column": "ts_ms", "sort_column": "lap"}]


def test_an_order_that_was_chosen_in_the_catalog_stays(catalog: QuixCatalog, server: CatalogServer) -> None:
    catalog.create_table(LOCATION, FULL)
    synced(catalog, replace(FULL, sort_column="speed", timestamp_column="time"))

    assert changes(server) == []


@pytest.mark.parametrize(("columns", "sent"), [(("ts_ms",), ["ts_ms"]), ((), None)])
def test_which_columns_have_zone_maps_is_decided_by_their_writer(
    catalog: QuixCatalog, server: CatalogServer, columns: tuple[str, ...], sent: list[str] | None
) -> None:
    catalog.create_table(LOCATION, FULL)
    synced(catalog, replace(FULL, stats_columns=columns))

    assert changes(server) == [{"stats_columns": sent}]
    assert properties(server).get("stats_columns") == sent


def test_columns_written_as_one_text_are_understood(catalog: QuixCatalog, server: CatalogServer) -> None:
    catalog.create_table(LOCATION, FULL)
    server.tables["default.sensors"].properties = {**properties(server), "stats_columns": "speed, lap"}
    synced(catalog, FULL)

    assert changes(server) == []


def test_a_topic_is_a_source_before_it_has_brought_a_file(catalog: QuixCatalog, server: CatalogServer) -> None:
    catalog.create_table(LOCATION, PLAIN)
    catalog.add_source("laps")

    assert server.tables["default.sensors"].sources == {"laps": SOURCE}


def test_a_catalog_that_does_not_know_these_requests_yet_is_no_reason_to_warn(
    catalog: QuixCatalog, server: CatalogServer, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.create_table(LOCATION, PLAIN)
    server.trouble(Trouble(status=501, only="properties"))
    server.trouble(Trouble(status=501, only="sources"))
    with caplog.at_level(logging.INFO):
        synced(catalog, FULL)
        catalog.add_source("laps")

    assert [record.levelname for record in caplog.records if record.name == "app.parts.quix.catalog"] == [
        "INFO",
        "INFO",
    ]
    assert "sort_column" not in properties(server)


@pytest.mark.parametrize("status", [400, 503])
def test_a_failure_is_told_and_stops_nothing(
    catalog: QuixCatalog, server: CatalogServer, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    catalog.create_table(LOCATION, PLAIN)
    server.trouble(Trouble(status=status, only="properties"))
    server.trouble(Trouble(status=status, only="sources"))
    synced(catalog, FULL)
    catalog.add_source("laps")

    changing, naming = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "changing stats_columns, sort_column of table default.sensors in the catalog" in changing
    assert "adding topic laps as a source of table default.sensors in the catalog" in naming
