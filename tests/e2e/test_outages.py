"""What is waited for, and what ends the process: Java, the store, the catalog and Kafka go away."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from dev.kafka import LocalKafka
from tests.e2e.records import records
from tests.e2e.scenario import Scenario


@pytest.mark.java
def test_a_java_process_that_dies_at_work_has_nothing_committed_that_is_not_in_the_lake(scenario: Scenario) -> None:
    connector = scenario.connector(BATCH_SIZE="200")
    connector.wait_until_ready()
    with scenario.load() as produced:
        connector.wait_for_log("batch 3 ")
        java = connector.java()
        assert java is not None
        os.kill(java, signal.SIGKILL)
        assert connector.wait() == 70

    assert "the Java process ended with code -9" in connector.log
    assert "Traceback" not in connector.log
    [committed] = scenario.committed()
    assert scenario.lake.numbers()[:committed] == list(range(committed))
    assert committed < produced[0]


@pytest.mark.night
def test_a_stop_while_kafka_does_not_answer_comes_to_an_end(tmp_path: Path) -> None:
    with LocalKafka() as mortal_kafka, closing(Scenario(mortal_kafka, tmp_path)) as scenario:
        scenario.produce(records(1_000))
        # Record by record, so that batches are not committed on the way.
        connector = scenario.connector(BATCH_SIZE="1000", COMMIT_INTERVAL="300", ON_BAD_RECORD="fail")
        connector.wait_for_log("batch 1 ")  # in the lake, and not committed yet
        mortal_kafka.pause()

        assert connector.stop() == 75

        assert "everything consumed is in the lake" not in connector.log
        connector.wait_until_nothing_is_left()
        mortal_kafka.resume()
