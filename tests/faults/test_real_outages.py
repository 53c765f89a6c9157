"""Outages in real time, under load: what is away is waited for, and nothing is lost or doubled by it.

A quarter of a minute in the short form; ``OUTAGE_SECONDS=60`` is the long one. Ten minutes of it, at every step, pass
in ``test_outages_in_process.py`` with a faster clock.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.kafka import LocalKafka
from dev.minio import LocalMinio
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Tally, mirror
from tests.e2e.records import records
from tests.e2e.scenario import Scenario, s3_store
from tests.fakes.catalog_server import CatalogServer
from tests.faults.proxy import FaultProxy, Hang, Reset, Rule, on
from tests.faults.tcp_detour import TcpDetour

SECONDS = float(os.environ.get("OUTAGE_SECONDS", "15"))
RECORDS_A_SECOND = 500
PARTITIONS = 3


@dataclass
class Place:
    """A connector's surroundings, each of which can go away for a while."""

    scenario: Scenario
    settings: dict[str, str]
    store: FaultProxy
    catalog: FaultProxy
    catalog_server: CatalogServer
    kafka: TcpDetour

    @contextmanager
    def away(self, what: str) -> Iterator[None]:
        """What is in ``OUTAGES`` is away within the block."""
        if what == "Kafka":
            self.kafka.cut()
            yield
            self.kafka.mend()
            return
        proxy = {"the store": self.store, "the catalog": self.catalog}[what]
        rule = proxy.add(Rule(on(), Reset()))
        yield
        proxy.remove(rule)


OUTAGES = {
    "the store": 1,
    "the catalog": 1,
    "Kafka": 0,  # its client tells of that, and nothing waits for it that would say so
}


@pytest.fixture
def place(s3_server: LocalMinio, bucket: str, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as running:
        detour = running.enter_context(TcpDetour())
        kafka = LocalKafka(detour=detour.port)
        detour.target = kafka.detour_port
        running.enter_context(kafka)
        server = running.enter_context(CatalogServer())
        store = running.enter_context(FaultProxy(s3_server.endpoint_url))
        catalog = running.enter_context(FaultProxy(server.url))
        scenario = running.enter_context(closing(Scenario(kafka, tmp_path, PARTITIONS)))
        settings = {
            **s3_store(s3_server, bucket),
            "AWS_ENDPOINT_URL": store.url,
            "CATALOG_URL": catalog.url,
            "CATALOG_AUTH_TOKEN": server.token,
            "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{detour.port}",
            "HIVE_COLUMNS": "location",
        }
        yield Place(scenario, settings, store, catalog, server, detour)


@pytest.mark.parametrize("what", OUTAGES)
def test_what_is_away_is_waited_for(
    place: Place, bucket: str, s3_server: LocalMinio, tmp_path: Path, what: str
) -> None:
    told = OUTAGES[what]
    scenario = place.scenario
    connector = scenario.connector(place.settings)
    connector.wait_until(lambda: connector.health("ready") == 200, "readiness")
    with scenario.load(RECORDS_A_SECOND) as produced:
        connector.wait_until(lambda: sum(scenario.committed()) > 0, "the first commit")
        with place.away(what):
            time.sleep(SECONDS)
        assert connector.exit_code is None, connector.log[-3000:]
        assert connector.health("live") == 200
    scenario.wait_until_committed(produced[0], by=connector)
    assert connector.stop() == 0
    assert connector.log.count("Trying again until it works") == told
    assert connector.log.count("it works again after") == told
    assert "Traceback" not in connector.log

    lake = mirror(s3_server, bucket, tmp_path / "mirror", f"data/{scenario.topic}")
    assert lake.tally_by_duckdb() == Tally.of(range(produced[0]))
    stored = {f"s3://{bucket}/data/{scenario.topic}/{path.relative_to(lake.folder)}" for path in lake.files()}
    assert {file["file_path"] for file in place.catalog_server.files(scenario.topic)} == stored


def headline(connector: ConnectorProcess) -> str:
    """The first words of the status page; empty as long as nobody answers."""
    found = re.search(r'id="headline">([^<]*)<', connector.page())
    return found[1] if found else ""


@pytest.mark.parametrize("what", OUTAGES)
def test_the_status_page_names_what_is_away_until_it_is_back(place: Place, what: str) -> None:
    """Records come in only while it is away: afterwards nothing but the end of the outage changes the headline."""
    scenario = place.scenario
    connector = scenario.connector(place.settings, COMMIT_INTERVAL="5")
    scenario.produce(records(300, partitions=PARTITIONS))
    connector.wait_until(lambda: headline(connector).startswith("Running: the table"), "a table that is up to date")

    with place.away(what):
        scenario.produce(records(300, first=300, partitions=PARTITIONS))
        title = f"{what[0].upper()}{what[1:]} is not available"
        connector.wait_until(lambda: headline(connector) == title, title)

    connector.wait_until(lambda: headline(connector).startswith("Running: the table"), "the end of the outage")
    assert connector.stop() == 0


@pytest.mark.parametrize("what", ["the store", "the catalog"])
def test_who_never_answers_makes_the_connector_not_ready_before_its_time_is_up(place: Place, what: str) -> None:
    scenario = place.scenario
    connector = scenario.connector(place.settings, COMMIT_INTERVAL="5")
    scenario.produce(records(300, partitions=PARTITIONS))
    connector.wait_until(lambda: headline(connector).startswith("Running: the table"), "a table that is up to date")

    proxy = {"the store": place.store, "the catalog": place.catalog}[what]
    rule = proxy.add(Rule(on(), Hang()))
    scenario.produce(records(300, first=300, partitions=PARTITIONS))
    connector.wait_until(lambda: connector.health("ready") == 503, "readiness to end")
    assert headline(connector) == f"{what[0].upper()}{what[1:]} does not answer"
    assert "Trying again" not in connector.log

    proxy.remove(rule)
    proxy.release()
    connector.wait_until(lambda: connector.health("ready") == 200, "readiness to come back")
    connector.wait_until(lambda: headline(connector).startswith("Running: the table"), "the end of the outage")
    assert connector.stop() == 0
