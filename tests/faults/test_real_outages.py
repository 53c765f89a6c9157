"""Outages under load: what is away is named and waited for, and nothing is lost or doubled by it.

``OUTAGE_RECORDS=60000`` makes them longer.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dev.kafka import LocalKafka
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Tally
from tests.e2e.scenario import Scenario
from tests.faults.proxy import FaultProxy, Reset, Rule, on
from tests.faults.site import Site
from tests.faults.tcp_detour import TcpDetour

pytestmark = pytest.mark.night

RECORDS = int(os.environ.get("OUTAGE_RECORDS", "15000"))  # that come while something is away
RECORDS_A_SECOND = 1_000
PARTITIONS = 3
LARGEST = 100_000  # bytes of the messages that are polled at once: they are taken as a whole


@dataclass
class Place:
    """A connector's surroundings, each of which can go away for a while."""

    scenario: Scenario
    site: Site
    kafka: TcpDetour

    def connector(self, **variables: str) -> ConnectorProcess:
        kafka = {"KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{self.kafka.port}", "HIVE_COLUMNS": "location"}
        connector = self.scenario.connector(self.site.settings, kafka, variables)
        connector.wait_until(lambda: connector.health("ready") == 200, "readiness")
        return connector

    def proxy(self, what: str) -> FaultProxy:
        return {"the store": self.site.to_store, "the catalog": self.site.to_catalog}[what]


@pytest.fixture
def place(site: Site, tmp_path: Path) -> Iterator[Place]:
    with TcpDetour() as detour:
        kafka = LocalKafka(detour=detour.port)
        detour.target = kafka.detour_port
        with kafka, closing(Scenario(kafka, tmp_path, PARTITIONS)) as scenario:
            yield Place(scenario, site, detour)


def wait_for_headline(connector: ConnectorProcess, begin: str) -> None:
    begin = begin[0].upper() + begin[1:]
    connector.wait_until(lambda: re.search(f'id="headline">{begin}', connector.page()) is not None, begin)


def buffer_of(connector: ConnectorProcess) -> tuple[float, float]:
    """How many bytes the connector holds, and its limit."""
    families = text_string_to_metric_families(connector.page("metrics"))
    found = {sample.name: sample.value for family in families for sample in family.samples}
    return found["lake_sink_buffer_bytes"], found["lake_sink_buffer_limit_bytes"]


@pytest.mark.parametrize("what", ["the store", "the catalog", "Kafka"])
def test_what_is_away_is_named_and_waited_for(place: Place, tmp_path: Path, what: str) -> None:
    """Records come faster than the buffer takes them in."""
    scenario = place.scenario
    connector = place.connector(MAX_BUFFER_MB="1", COMMIT_INTERVAL="5")
    with scenario.load(RECORDS_A_SECOND) as produced:
        connector.wait_until(lambda: sum(scenario.committed()) > 0, "the first commit")
        if what == "Kafka":
            place.kafka.cut()
        else:
            place.proxy(what).add(Rule(on(), Reset()))
        wait_for_headline(connector, f"{what} is not available")
        enough = produced[0] + RECORDS
        connector.wait_until(lambda: produced[0] >= enough, "records that nobody takes")
        held, limit = buffer_of(connector)
        assert held <= limit + LARGEST
        place.kafka.mend()
        place.site.clear()
        assert connector.exit_code is None, connector.log[-3000:]
        assert connector.health("live") == 200
    scenario.wait_until_committed(produced[0], by=connector)
    wait_for_headline(connector, "Running: the table")
    assert connector.stop() == 0
    said = connector.log.count("Retrying until it works")
    assert said == 1 or (what == "Kafka" and not said), "nothing is asked of Kafka in each outage"
    assert connector.log.count("it works again after") == said
    assert "Traceback" not in connector.log

    lake = place.site.copy_of(scenario.topic, tmp_path / "mirror")
    assert lake.tally_by_duckdb() == Tally.of(range(produced[0]))
