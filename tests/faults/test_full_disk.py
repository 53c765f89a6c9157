"""The disk of the scratch folder is small, or really full: every row is in the lake once, in its folder."""

from pathlib import Path

import pytest

from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario, new_scenario
from tests.e2e.lake import Tally, mirror
from tests.e2e.records import records
from tests.e2e.scenario import Scenario, s3_store
from tests.support.small_disk import fill, small_disk

__all__ = ["new_scenario"]  # a fixture

pytestmark = pytest.mark.night

RECORDS = 60_000  # that take about 6 MB in a staged file
PARTITIONS = 3
SETTINGS = {"HIVE_COLUMNS": "location", "MAX_BUFFER_MB": "4", "BATCH_SIZE": "1000000", "COMMIT_INTERVAL": "600"}


@pytest.fixture
def scenario(new_scenario: NewScenario) -> Scenario:
    return new_scenario(PARTITIONS)


def first_disk(scenario: Scenario) -> Path:
    """Where the first connector has its scratch folder."""
    return scenario.folder / "connector-1" / "tmp"


def assert_whole(scenario: Scenario, server: LocalMinio, bucket: str) -> None:
    lake = mirror(server, bucket, scenario.folder / "mirror", f"data/{scenario.topic}")
    assert lake.tally_by_duckdb() == Tally.of(range(RECORDS))


@pytest.mark.parametrize(
    ("megabytes", "left", "reason"),
    [(8, 8, r"\d+ MB staged"), (64, 2, "little room in the temporary folder")],
    ids=["small", "nearly full"],
)
def test_a_disk_that_has_no_room_for_the_batch_takes_it_in_parts(
    scenario: Scenario, s3_server: LocalMinio, bucket: str, megabytes: int, left: int, reason: str
) -> None:
    store = s3_store(s3_server, bucket)
    scenario.produce(records(RECORDS, partitions=PARTITIONS))
    with small_disk(first_disk(scenario), megabytes) as disk:
        if left < megabytes:
            fill(disk, left * 2**20)
        with scenario.connector(store, SETTINGS, COMMIT_INTERVAL="5") as connector:
            connector.wait_for_log(rf"batch \d+ \({reason}\)")
            scenario.finish(connector, RECORDS)
    assert_whole(scenario, s3_server, bucket)


@pytest.mark.java
def test_a_disk_that_is_full_when_spark_starts_is_told(scenario: Scenario, s3_server: LocalMinio, bucket: str) -> None:
    with small_disk(first_disk(scenario), 64) as disk:
        fill(disk, 64 * 1024)  # for the connector's own folders
        with scenario.connector(s3_store(s3_server, bucket), SETTINGS) as connector:
            assert connector.wait() != 0
            connector.wait_for_log(r"starting Spark: .*No space left.*\(TMPDIR")
