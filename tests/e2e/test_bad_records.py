"""Records that cannot become rows: beside the lake in the dead letter, or the end of the process, as the user wants."""

from dev.broker import Bytes
from tests.e2e.lake import Lake, Tally
from tests.e2e.records import records
from tests.e2e.scenario import Scenario

GOOD = 500

BAD_VALUES: dict[str, tuple[Bytes, str]] = {
    "not JSON": (b'{"n": 500, "ts_ms"', "it does not deserialize: "),
    "no object": (b"[1, 2]", "its value is of type list, and a row needs an object with fields"),
    "no value": (None, "its value is null (a tombstone), and a row needs an object with fields"),
}


def test_bad_records_go_to_the_dead_letter_and_the_others_to_the_lake(scenario: Scenario) -> None:
    scenario.produce(records(GOOD))
    scenario.produce([("key", bad, None, 0) for bad, _ in BAD_VALUES.values()])
    scenario.produce(records(10, first=GOOD))
    scenario.produce([("key", b"the last one", None, 0)])
    everything = GOOD + len(BAD_VALUES) + 10 + 1
    connector = scenario.connector(BATCH_SIZE="300", HIVE_COLUMNS="location,year")
    scenario.wait_until_committed(everything, connector)

    assert connector.stop() == 0

    assert "bad records since the start: 4" in connector.log
    assert scenario.committed() == [everything]
    assert scenario.lake.tally_by_duckdb() == Tally.of(range(GOOD + 10))
    folder = scenario.folder / "lake" / "data" / "_dead_letter" / scenario.topic
    found = Lake(folder).query(
        'SELECT "offset", value, value_json, reason, key, topic, partition FROM {source} ORDER BY "offset"'
    )
    wanted = [*BAD_VALUES.values(), (b"the last one", "it does not deserialize: ")]
    assert len(found) == len(wanted)
    for (_, raw, decoded, told, *origin), (bad, reason) in zip(found, wanted, strict=True):
        assert str(told).startswith(reason)
        assert origin == [b"key", scenario.topic, 0]
        assert (raw, decoded) == (bad, None)
    assert [offset for offset, *_ in found] == [GOOD, GOOD + 1, GOOD + 2, everything - 1]
    assert f"{scenario.topic}[0] at offset {GOOD} goes to the dead letter" in connector.log


def test_a_bad_record_stops_the_connector_where_the_user_wants_it(scenario: Scenario) -> None:
    bad, reason = BAD_VALUES["not JSON"]
    scenario.produce(records(GOOD))
    scenario.produce([("key", bad, None, 0)])
    scenario.produce(records(10, first=GOOD))
    # Neither the batch size nor the commit interval ends the batch of what comes before.
    for _ in range(2):  # a restart meets the same record and adds nothing
        connector = scenario.connector(BATCH_SIZE="300", COMMIT_INTERVAL="300", ON_BAD_RECORD="fail")

        assert connector.wait() == 1

        [error] = [line for line in connector.complaints() if " ERROR " in line]
        assert f"{scenario.topic}[0] at offset {GOOD}: {reason}" in error
        assert "ON_BAD_RECORD" in error
        assert "Traceback" not in connector.log
        assert scenario.lake.tally_by_duckdb() == Tally.of(range(GOOD))
        assert scenario.committed() == [0]  # quixstreams commits nothing after an error: the log counts
