"""What an OpenLineage collector is told of a run of the connector."""

from pathlib import Path

import pytest

from tests.e2e.conftest import NewScenario
from tests.e2e.records import records
from tests.e2e.scenario import tree_of
from tests.fakes.canned_server import Answer, CannedServer


@pytest.mark.parametrize("lane", ["plain", pytest.param("framework", marks=pytest.mark.night)])
def test_a_run_is_told_with_all_that_it_has_written(new_scenario: NewScenario, tmp_path: Path, lane: str) -> None:
    scenario = new_scenario(partitions=2)
    scenario.produce(records(3_000, partitions=2))
    with CannedServer(Answer(201)) as collector:
        connector = scenario.connector(
            root=tree_of(lane, tmp_path),
            UNTIL="now",
            HIVE_COLUMNS="location",
            OPENLINEAGE_URL=collector.url,
            LIGHT_LINEAGE_SECONDS="0.05",
        )
        assert connector.wait() == 0
    events = [request.json() for request in collector.requests]
    states = [event["eventType"] for event in events]
    assert (states[0], states[1], states[-1]) == ("START", "RUNNING", "COMPLETE")
    assert len({event["run"]["runId"] for event in events}) == 1
    assert sum(event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] for event in events) == 3_000
    [topic], [table] = events[-1]["inputs"], events[-1]["outputs"]
    broker = scenario.kafka.bootstrap_servers.split(",")[0]
    assert (topic["namespace"], topic["name"]) == (f"kafka://{broker}", scenario.topic)
    assert (table["namespace"], table["name"]) == ("file", f"{scenario.folder}/lake/data/{scenario.topic}")
    columns = [field["name"] for field in table["facets"]["schema"]["fields"]]
    assert {*columns} >= {"n", "temperature", "location"}
    assert connector.complaints() == []
