"""Rows in are rows out: by key, by sum, in the catalog's books and for every reader."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import FILE_NAME, Lake, Tally, mirror, offsets_of_batch
from tests.e2e.records import records, value
from tests.e2e.scenario import Scenario, java_that_waits, s3_store
from tests.fakes.catalog_server import CatalogServer
from tests.services.groups import member_count

ROWS, PARTITIONS = 9_000, 3
HIVE_COLUMNS = ("year", "month", "day", "location")
STORED_COLUMNS = {"n": "int64", "ts_ms": "int64", "temperature": "double", "ok": "bool", "__key": "string"}


@pytest.mark.java
def test_every_row_arrives_once_those_before_spark_has_started_too(
    new_scenario: NewScenario, s3_server: LocalMinio, bucket: str, tmp_path: Path
) -> None:
    scenario = new_scenario(PARTITIONS)
    store = s3_store(s3_server, bucket)
    start = tmp_path / "start"
    with CatalogServer() as catalog:
        connector = scenario.connector(
            store,
            HIVE_COLUMNS=",".join(HIVE_COLUMNS),
            BATCH_SIZE="1000",
            CATALOG_URL=catalog.url,
            CATALOG_AUTH_TOKEN=catalog.token,
            JAVA_HOME=str(java_that_waits(tmp_path / "java", start)),
        )
        scenario.produce(records(ROWS // 3, partitions=PARTITIONS))  # a part while it starts,
        connector.wait_for_log("claimed: ")
        assert "CONNECTED!" not in connector.log
        assert (connector.health("live"), connector.health("ready")) == (200, 503)
        start.touch()
        connector.wait_until_ready()
        scenario.produce(records(ROWS - ROWS // 3, first=ROWS // 3, partitions=PARTITIONS))  # the rest while it works
        scenario.wait_until_committed(ROWS, by=connector)
        assert connector.health("ready") == 200
        assert connector.stop() == 0
        assert member_count(scenario.kafka, scenario.group) == 0  # its partitions need not wait for the session's end

        lake = mirror(s3_server, bucket, scenario.folder / "mirror", f"data/{scenario.topic}")
        assert lake.tally_by_duckdb() == lake.tally_by_pyarrow() == Tally.of(range(ROWS))
        _check_files(lake.files(), scenario)
        _check_values(lake)
        _check_books(catalog, lake, scenario, bucket)
    assert not connector.complaints()
    assert not list(connector.temporary.iterdir()), "the temporary folder is left as it was found"


def _check_files(files: Iterable[Path], scenario: Scenario) -> None:
    partitions = set[int]()
    for file in files:
        name = FILE_NAME.fullmatch(file.name)
        assert name, file.name
        assert name["topic"] == scenario.topic
        partitions.update(offsets_of_batch(file))
        schema = pq.read_schema(file)
        assert {field.name: str(field.type) for field in schema} == STORED_COLUMNS
    assert partitions == set(range(scenario.partitions))


def _check_values(lake: Lake) -> None:
    for n, ts_ms, location, temperature, ok in lake.query(
        "SELECT n, ts_ms, location, temperature, ok FROM {source} WHERE n % 1009 = 7 ORDER BY n"
    ):
        stored = {"n": n, "ts_ms": ts_ms, "location": location, "temperature": temperature, "ok": ok}
        assert stored == value(n)
    [(wrong,)] = lake.query(
        "SELECT count(*) FROM {source} WHERE __key <> 'device-' || n % 10 "
        "OR strftime(make_timestamp(ts_ms * 1000), '%Y-%m-%d') "
        "<> printf('%04d-%02d-%02d', year::INT, month::INT, day::INT)"
    )
    assert wrong == 0


def _check_books(catalog: CatalogServer, lake: Lake, scenario: Scenario, bucket: str) -> None:
    table = catalog.tables[f"default.{scenario.topic}"]
    assert table.location == f"s3://{bucket}/data/{scenario.topic}"
    assert table.partition_spec == list(HIVE_COLUMNS)
    registered = {file["file_path"].removeprefix(table.location + "/"): file for file in table.files.values()}
    assert sorted(registered) == [str(path.relative_to(lake.folder)) for path in lake.files()]
    for path in lake.files():
        file = registered[str(path.relative_to(lake.folder))]
        assert file["file_size"] == path.stat().st_size
        assert file["row_count"] == pq.read_metadata(path).num_rows
        folders = dict(part.split("=", 1) for part in path.relative_to(lake.folder).parts[:-1])
        assert list(folders) == list(HIVE_COLUMNS)
        unescaped = {column: text.replace("%2F", "/").replace("%3D", "=") for column, text in folders.items()}
        assert file["partition_values"] == unescaped
