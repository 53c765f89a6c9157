"""One member with 500 partitions of a real topic: a batch costs one write and one read of the log, and its files."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from dev.broker import Broker
from dev.minio import LocalMinio
from tests.e2e.lake import Tally, mirror
from tests.e2e.records import PLACES, records
from tests.e2e.scenario import Scenario, s3_store
from tests.faults.proxy import FaultProxy, on
from tests.faults.steps import CLAIM, LOG

PARTITIONS = 500
RECORDS = 20_000


@pytest.mark.slow
def test_the_requests_of_a_batch(kafka: Broker, s3_server: LocalMinio, bucket: str, tmp_path: Path) -> None:
    with FaultProxy(s3_server.endpoint_url) as proxy, closing(Scenario(kafka, tmp_path, PARTITIONS)) as scenario:
        scenario.produce(records(RECORDS, partitions=PARTITIONS))
        store = s3_store(s3_server, bucket) | {"AWS_ENDPOINT_URL": proxy.url}
        connector = scenario.connector(store, HIVE_COLUMNS="location", COMMIT_INTERVAL="10")
        scenario.wait_until_committed(RECORDS, by=connector)
        assert connector.stop() == 0

        lake = mirror(s3_server, bucket, tmp_path / "mirror", f"data/{scenario.topic}")
        assert lake.tally_by_duckdb() == Tally.of(range(RECORDS))
        batches = len(re.findall(r"batch \d+ \(.*\): [\d,]+ rows", connector.log))
        assert len(lake.files()) <= batches * len(PLACES)
        claim = CLAIM.replace("readers/sensors", f"{scenario.group}/{scenario.topic}")
        requests = {
            "claim": proxy.count(on("PUT", claim)),
            "intend": proxy.count(on("PUT", LOG, body='"state":"pending"')),
            "verify": proxy.count(on("GET", LOG)),
            "upload": proxy.count(on("PUT", ".parquet")),
        }
        assert requests == {
            "claim": PARTITIONS,
            "intend": batches,
            "verify": batches,
            "upload": len(lake.files()),
        }
