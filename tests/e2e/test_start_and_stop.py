"""SIGTERM at any moment stops in good order; the probes tell where the connector stands."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import NewScenario
from tests.e2e.lake import Tally
from tests.e2e.records import records
from tests.e2e.scenario import Scenario, java_that_waits


@pytest.mark.java
@pytest.mark.parametrize("moment", [pytest.param("Java starts", marks=pytest.mark.night), "the session starts"])
def test_a_stop_while_spark_starts(scenario: Scenario, tmp_path: Path, moment: str) -> None:
    start = tmp_path / "start"
    connector = scenario.connector(JAVA_HOME=str(java_that_waits(tmp_path / "java", start)))
    scratch = connector.temporary
    connector.wait_until(lambda: connector.health("live") == 200, "an answer")
    assert connector.health("ready") == 503
    start.touch()
    connector.wait_until(lambda: connector.java() is not None, "its Java process")
    if moment == "the session starts":
        connector.wait_until(lambda: any(scratch.glob("quix-datalake-*/spark/*")), "the session's folder")

    java = connector.java()
    assert java is not None
    os.kill(java, signal.SIGTERM)  # as a service manager does, which stops all processes of a service
    connector.signal(signal.SIGTERM)
    connector.signal(signal.SIGTERM)  # platforms repeat themselves
    assert connector.wait() == 0

    # Consuming may have begun, for it does not wait for Spark.
    assert re.search("stopped while starting|stopped: everything consumed is in the lake", connector.log)
    assert not connector.complaints()
    connector.wait_until_nothing_is_left()
    assert not list(scratch.glob("quix-datalake-*/*"))


@pytest.mark.java
def test_a_spark_that_does_not_come_up_ends_the_process_and_loses_nothing(scenario: Scenario) -> None:
    scenario.produce(records(1_000))
    refused = scenario.connector(BATCH_SIZE="500", SPARK_DRIVER_MEMORY="900000g")
    assert refused.wait() == 2
    assert "CONNECTED!" not in refused.log
    assert re.search(r"^ERROR! starting Spark: Java ended with code 1.*SPARK_DRIVER_MEMORY", refused.log, re.MULTILINE)
    refused.wait_until_nothing_is_left()

    second = scenario.connector(BATCH_SIZE="500", java=False)
    scenario.finish(second, 1_000)
    assert scenario.lake.numbers() == list(range(1_000))


def test_a_stop_before_the_first_record(scenario: Scenario) -> None:
    connector = scenario.connector()
    connector.wait_until_ready()
    connector.wait_until(lambda: connector.health("ready") == 200, "readiness")

    assert f"assigned: {scenario.topic}[0]" in connector.log
    assert connector.health("live") == 200
    assert connector.health("") == 404
    assert connector.stop() == 0
    assert not connector.complaints()
    assert not scenario.lake.files()
    assert not list(connector.temporary.iterdir())


def test_a_stop_under_load_and_the_next_start_together_lose_and_double_nothing(new_scenario: NewScenario) -> None:
    scenario = new_scenario(partitions=3)
    first = scenario.connector(BATCH_SIZE="500", COMMIT_INTERVAL="300", TARGET_FILE_MB="0")
    first.wait_until_ready()
    with scenario.load() as produced:
        first.wait_for_log("batch 3 ")
        assert first.stop() == 0

    taken = sum(scenario.committed())
    assert 0 < taken < produced[0]
    assert len(scenario.lake.numbers()) == taken, "committed is what is in the lake, and nothing else"
    assert not first.complaints()

    second = scenario.connector(BATCH_SIZE="500")
    scenario.wait_until_committed(produced[0], by=second)
    second.signal(signal.SIGINT)  # Ctrl-C does it as well
    assert second.wait() == 0
    assert not second.complaints()
    assert scenario.lake.tally_by_duckdb() == Tally.of(range(produced[0]))
