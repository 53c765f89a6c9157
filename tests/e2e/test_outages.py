"""What is waited for, and what ends the process: Java, the store, the catalog and Kafka go away."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.kafka import LocalKafka
from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Tally, mirror
from tests.e2e.records import records
from tests.e2e.scenario import Scenario, s3_store
from tests.fakes.catalog_server import CatalogServer, Trouble
from tests.services.offsets import member_count


def _kill_java(connector: ConnectorProcess) -> None:
    java = connector.java()
    assert java is not None
    os.kill(java, signal.SIGKILL)


@pytest.mark.java
def test_a_java_process_that_dies_while_idle_ends_the_connector(scenario: Scenario) -> None:
    connector = scenario.connector()
    connector.wait_until(lambda: connector.health("ready") == 200, "readiness")

    _kill_java(connector)

    assert connector.wait() == 70
    assert "the Java process ended with code -9" in connector.log
    assert "The process ends so that its platform starts a new one" in connector.log
    assert "Traceback" not in connector.log
    assert member_count(scenario.kafka, scenario.group) == 0  # its partitions need not wait for the session's end


@pytest.mark.java
def test_a_java_process_that_dies_at_work_has_nothing_committed_that_is_not_in_the_lake(scenario: Scenario) -> None:
    connector = scenario.connector(BATCH_SIZE="200")
    connector.wait_until_ready()
    with scenario.load() as produced:
        connector.wait_for_log("batch 3 ")
        _kill_java(connector)
        assert connector.wait() == 70

    assert "the Java process ended with code -9" in connector.log
    assert "Traceback" not in connector.log
    [committed] = scenario.committed()
    assert scenario.lake.numbers()[:committed] == list(range(committed))
    assert committed < produced[0]


def test_a_store_that_goes_away_is_waited_for(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=2)
    with LocalMinio() as minio:  # not the tests' common one, for it is stopped
        minio.client().create_bucket(Bucket="lake")
        connector = scenario.connector(s3_store(minio, "lake"), BATCH_SIZE="500", COMMIT_INTERVAL="2")
        scenario.produce(records(2_000, partitions=2))
        scenario.wait_until_committed(2_000, by=connector)
        assert connector.health("ready") == 200

        minio.pause()  # frozen: it takes requests and does not answer
        scenario.produce(records(20_000, first=2_000, partitions=2))
        time.sleep(5)
        assert connector.health("live") == 200
        minio.resume()
        scenario.wait_until_committed(22_000, by=connector)
        assert not connector.complaints()

        minio.stop()
        scenario.produce(records(20_000, first=22_000, partitions=2))
        connector.wait_for_log(
            r"WARNING app\.retry: (?:reading|writing|uploading) s3://lake/\S+: .*Trying again until it works"
        )
        connector.wait_until(lambda: connector.health("ready") == 503, "readiness to end")
        assert connector.health("live") == 200
        time.sleep(5)
        minio.start()
        connector.wait_for_log("it works again after")
        connector.wait_until(lambda: connector.health("ready") == 200, "readiness to come back")
        scenario.produce(records(2_000, first=42_000, partitions=2))
        scenario.wait_until_committed(44_000, by=connector)
        assert connector.stop() == 0

        assert len(re.findall("Trying again until it works", connector.log)) == 1
        assert "Traceback" not in connector.log
        lake = mirror(minio, "lake", scenario.folder / "mirror", f"data/{scenario.topic}")
        assert lake.tally_by_duckdb() == Tally.of(range(44_000))


def test_a_stop_while_the_store_is_away_tells_that_rows_were_left_behind(scenario: Scenario) -> None:
    with LocalMinio() as minio:
        minio.client().create_bucket(Bucket="lake")
        connector = scenario.connector(s3_store(minio, "lake"), BATCH_SIZE="500")
        connector.wait_until(lambda: connector.health("ready") == 200, "readiness")
        minio.stop()
        scenario.produce(records(2_000))
        connector.wait_for_log("Trying again until it works")

        assert connector.stop() == 75

        assert "everything consumed is in the lake" not in connector.log
        assert "Traceback" not in connector.log
        minio.start()
        again = scenario.connector(s3_store(minio, "lake"))
        scenario.wait_until_committed(2_000, by=again)
        assert again.stop() == 0
        lake = mirror(minio, "lake", scenario.folder / "mirror", f"data/{scenario.topic}")
        assert lake.tally_by_duckdb() == Tally.of(range(2_000))


def test_a_catalog_that_fails_for_a_while_gets_every_file_once(scenario: Scenario) -> None:
    with CatalogServer() as catalog:
        catalog.trouble(Trouble(status=503, only="add-files"), times=3)
        catalog.trouble(Trouble(lost=True, only="add-files"))  # done, and yet without an answer
        connector = scenario.connector(CATALOG_URL=catalog.url, CATALOG_AUTH_TOKEN=catalog.token, BATCH_SIZE="500")
        scenario.produce(records(2_000))
        scenario.wait_until_committed(2_000, by=connector)
        assert connector.stop() == 0

        registered = [file["file_path"] for file in catalog.files(scenario.topic)]
        assert sorted(registered) == [f"file://{path}" for path in scenario.lake.files()]
        assert sum(file["row_count"] for file in catalog.files(scenario.topic)) == 2_000
    assert scenario.lake.tally_by_duckdb() == Tally.of(range(2_000))


@pytest.fixture
def mortal_kafka() -> Iterator[LocalKafka]:
    """A broker of the test's own, to be stopped and frozen."""
    with LocalKafka() as kafka:
        yield kafka


def test_a_kafka_that_comes_back_is_taken_up_again(mortal_kafka: LocalKafka, tmp_path: Path) -> None:
    with closing(Scenario(mortal_kafka, tmp_path, partitions=2)) as scenario:
        connector = scenario.connector(BATCH_SIZE="500")
        scenario.produce(records(50_000, partitions=2))
        connector.wait_for_log("batch 1 ")  # commits are under way from here on

        mortal_kafka.stop()
        connector.wait_for_log("brokers are down")
        time.sleep(5)
        assert connector.exit_code is None
        assert connector.health("live") == 200
        mortal_kafka.start()

        scenario.produce(records(1_000, first=50_000, partitions=2))
        scenario.wait_until_committed(51_000, by=connector)
        assert connector.stop() == 0
        assert sorted(set(scenario.lake.numbers())) == list(range(51_000))
        assert "Traceback" not in connector.log
        assert connector.log.count("brokers are down") < 10, "it says so once a minute"


def test_a_stop_while_kafka_does_not_answer_comes_to_an_end(mortal_kafka: LocalKafka, tmp_path: Path) -> None:
    with closing(Scenario(mortal_kafka, tmp_path)) as scenario:
        scenario.produce(records(1_000))
        # Record by record, so that batches are not committed on the way.
        connector = scenario.connector(BATCH_SIZE="1000", COMMIT_INTERVAL="300", ON_BAD_RECORD="fail")
        connector.wait_for_log("batch 1 ")  # in the lake, and not committed yet
        mortal_kafka.pause()

        assert connector.stop() == 75

        assert "The next start reads again what was not committed" in connector.log
        assert "everything consumed is in the lake" not in connector.log
        connector.wait_until_nothing_is_left()
        mortal_kafka.resume()
