"""A record that cannot be written ends the process and is named; what came before it is in the lake and committed."""

import json
from pathlib import Path

import pytest

from dev.broker import Bytes
from tests.e2e.lake import Tally
from tests.e2e.records import records, value
from tests.e2e.scenario import Scenario, customised

GOOD = 500

BAD_VALUES: dict[str, tuple[Bytes, str]] = {
    "not JSON": (b'{"n": 500, "ts_ms"', "it does not deserialize: "),
    "no object": (b"[1, 2]", "its value is of type list, and a row needs an object with fields"),
    "no value": (None, "its value is null (a tombstone), and a row needs an object with fields"),
}


@pytest.mark.parametrize("kind", BAD_VALUES)
def test_a_bad_record_stops_the_connector_until_it_is_dealt_with(scenario: Scenario, kind: str) -> None:
    bad, reason = BAD_VALUES[kind]
    scenario.produce(records(GOOD))
    scenario.produce([("key", bad, None, 0)])
    scenario.produce(records(10, first=GOOD))
    # a batch of its own for what comes before, and one commit that the bad record itself must bring about
    for _ in range(2):  # a restart meets the same record and adds nothing
        connector = scenario.connector(BATCH_SIZE="300", COMMIT_INTERVAL="300")

        assert connector.wait() == 1

        [error] = [line for line in connector.complaints() if " ERROR " in line]
        assert f"reading the record of {scenario.topic}[0] at offset {GOOD}: {reason}" in error
        assert "move the consumer group past" in error
        assert "Traceback" not in connector.log
        assert scenario.lake.tally_by_duckdb() == Tally.of(range(GOOD))
        assert scenario.committed() == [GOOD]
        if kind != "not JSON":
            break


def test_a_value_that_does_not_fit_its_column(scenario: Scenario) -> None:
    scenario.produce(records(GOOD))
    odd = value(GOOD) | {"temperature": "warm"}
    scenario.produce([("key", json.dumps(odd), None, 0)])
    scenario.produce(records(10, first=GOOD + 1))
    connector = scenario.connector(BATCH_SIZE="100000", COMMIT_INTERVAL="2")

    assert connector.wait() == 1

    [error] = [line for line in connector.complaints() if " ERROR " in line]
    assert f"converting the record of {scenario.topic}[0] at offset {GOOD}: " in error
    assert "column 'temperature' has the value 'warm', which does not fit after float values" in error
    assert "Traceback" not in connector.log
    assert len(scenario.lake.numbers()) == scenario.committed()[0]


def test_a_transform_that_fails_names_the_record(scenario: Scenario, tmp_path: Path) -> None:
    failing = "def transform(sdf):\n    return sdf.apply(lambda value: {**value, 'ratio': 1 / (value['n'] - 500)})\n"
    scenario.produce(records(GOOD + 10))
    connector = scenario.connector(root=customised(tmp_path / "tree", failing))

    assert connector.wait() == 1

    [error] = [line for line in connector.complaints() if " ERROR " in line]
    assert f"processing the record of {scenario.topic}[0] at offset {GOOD}: " in error
    assert "transform() raised ZeroDivisionError" in error
    assert "app/transform.py" in error
    assert scenario.lake.tally_by_duckdb() == Tally.of(range(GOOD))
    assert scenario.committed() == [GOOD]
