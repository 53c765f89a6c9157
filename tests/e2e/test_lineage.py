"""What an OpenLineage collector is told of a run of the connector."""

from collections import Counter
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
    topics = [scenario.topic] + [f"{scenario.topic}.more"] * (lane == "plain")
    if lane == "plain":
        scenario.kafka.create_topic(topics[1], 1)
        scenario.kafka.produce(topics[1], records(200))
    with CannedServer(Answer(201)) as collector:
        connector = scenario.connector(
            root=tree_of(lane, tmp_path),
            input=",".join(topics),
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
    broker = scenario.kafka.bootstrap_servers.split(",")[0]
    assert {(each["namespace"], each["name"]) for each in events[-1]["inputs"]} == {
        (f"kafka://{broker}", topic) for topic in topics
    }
    rows = Counter[str]()
    for table in (each for event in events for each in event["outputs"]):
        rows[f"{table['namespace']}:{table['name']}"] += table["outputFacets"]["outputStatistics"]["rowCount"]
    names = [f"file:{scenario.folder}/lake/data/{topic}" for topic in topics]
    assert rows == dict(zip(names, (3_000, 200), strict=False))
    for table in events[-1]["outputs"]:
        columns = [field["name"] for field in table["facets"]["schema"]["fields"]]
        assert {*columns} >= {"n", "temperature", "location"}
    assert connector.complaints() == []
