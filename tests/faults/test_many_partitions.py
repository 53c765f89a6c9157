"""A member with many partitions: claims go side by side, and a batch costs one write and one read of the log."""

import re
import threading
from contextlib import closing
from pathlib import Path

import pytest

from app.model import TopicPartition
from dev.broker import Broker
from tests.e2e.lake import Tally
from tests.e2e.records import PLACES, records
from tests.e2e.scenario import Scenario
from tests.faults.members import TOPIC, Member, Table
from tests.faults.proxy import Request, Rule, on
from tests.faults.site import Site
from tests.faults.steps import CLAIM, LOG

PARTITIONS = 500
RECORDS = 20_000


@pytest.mark.night
def test_the_requests_of_a_batch(site: Site, kafka: Broker, tmp_path: Path) -> None:
    with closing(Scenario(kafka, tmp_path, PARTITIONS)) as scenario:
        scenario.produce(records(RECORDS, partitions=PARTITIONS))
        connector = scenario.connector(site.settings, HIVE_COLUMNS="location", COMMIT_INTERVAL="10")
        scenario.wait_until_committed(RECORDS, by=connector)
        assert connector.stop() == 0

        lake = site.copy_of(scenario.topic, tmp_path / "mirror")
        assert lake.tally_by_duckdb() == Tally.of(range(RECORDS))
        batches = len(re.findall(r"batch \d+ \(.*\): [\d,]+ rows", connector.log))
        assert len(lake.files()) <= batches * len(PLACES)
        claim = CLAIM.replace("readers/sensors", f"{scenario.group}/{scenario.topic}")
        requests = {
            "claim": site.to_store.count(on("PUT", claim)),
            "intend": site.to_store.count(on("PUT", LOG, body='"state":"pending"')),
            "upload": site.to_store.count(on("PUT", ".parquet")),
        }
        assert requests == {
            "claim": PARTITIONS,
            "intend": batches,
            "upload": len(lake.files()),
        }
        verified = site.to_store.count(on("GET", LOG))
        assert verified - batches in (0, 1), "once more where the claims took half a session"


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_claims_are_read_and_written_side_by_side(table: Table, tmp_path: Path, method: str) -> None:
    """Each request waits at the proxy until there are as many as the member may send at once."""
    workers, count = 8, 64
    together = threading.Barrier(workers, timeout=30.0)

    def meet(_: Request) -> None:
        together.wait()

    rule = table.site.to_store.add(Rule(on(method, CLAIM), before=meet))
    partitions = [TopicPartition(TOPIC, number) for number in range(count)]
    store = table.site.new_store(max_workers=2 * workers)
    with Member(table, tmp_path, store=store, partitions=partitions, workers=workers) as member:
        member.claim()
    assert rule.met == count
    assert not together.broken
