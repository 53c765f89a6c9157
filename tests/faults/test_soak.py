"""Hours of load in short: memory, files, threads and the scratch folder must not grow once all is warm.

The short form runs with all other tests; ``make soak`` runs for half an hour.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.minio import LocalMinio
from tests.e2e.conftest import NewScenario, new_scenario
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Tally, mirror
from tests.e2e.scenario import s3_store, tree_of

__all__ = ["new_scenario"]  # a fixture

pytestmark = pytest.mark.alone

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
PARTITIONS = 4
RECORDS_A_SECOND = 5_000
LIMIT_MB = 2_000
# What is warm still breathes: garbage is collected when the collector likes.
MEMORY_BREATH, COUNT_BREATH = 1.15, 8


@dataclass(frozen=True)
class Reading:
    """What the connector holds: resident memory in MB, open files, threads, batches in the scratch folder."""

    python_mb: float
    java_mb: float
    files: int
    threads: int
    batches: int


def read(connector: ConnectorProcess) -> Reading:
    java = connector.java()
    assert java is not None, connector.log[-3000:]
    processes = (Path(f"/proc/{connector.pid}"), Path(f"/proc/{java}"))
    python_mb, java_mb = (_resident_mb(process) for process in processes)
    return Reading(
        python_mb,
        java_mb,
        sum(len(list((process / "fd").iterdir())) for process in processes),
        sum(len(list((process / "task").iterdir())) for process in processes),
        len(list(connector.temporary.glob("quix-datalake-*/batch-*"))),
    )


def _resident_mb(process: Path) -> float:
    status = (process / "status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024


@pytest.mark.java
@pytest.mark.parametrize("lane", ["plain", "transforming", "framework"])
def test_nothing_grows_under_load(
    new_scenario: NewScenario, s3_server: LocalMinio, bucket: str, tmp_path: Path, lane: str
) -> None:
    scenario = new_scenario(partitions=PARTITIONS)
    settings = {
        **s3_store(s3_server, bucket),
        "HIVE_COLUMNS": "year,month,day,location",
        "Quix__Deployment__Limits__Memory": str(LIMIT_MB),
        "SPARK_DRIVER_MEMORY": "",
    }
    connector = scenario.connector(settings, root=tree_of(lane, tmp_path))
    connector.wait_until_ready()
    readings: list[Reading] = []
    with scenario.load(RECORDS_A_SECOND) as produced:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(1)
            readings.append(read(connector))
    scenario.wait_until_committed(produced[0], by=connector)
    connector.wait_until(lambda: read(connector).batches == 0, "an empty scratch folder")
    assert connector.stop() == 0
    assert not connector.complaints()

    third = len(readings) // 3
    middle, last = readings[third : 2 * third], readings[2 * third :]
    for name in ("python_mb", "java_mb"):
        before, after = (max(getattr(reading, name) for reading in some) for some in (middle, last))
        print(f"{name}: {before:.0f}, then {after:.0f}")
        assert after <= before * MEMORY_BREATH, name
    for name in ("files", "threads", "batches"):
        before, after = (max(getattr(reading, name) for reading in some) for some in (middle, last))
        print(f"{name}: {before}, then {after}")
        assert after <= before + COUNT_BREATH, name
    assert max(reading.python_mb + reading.java_mb for reading in readings) < LIMIT_MB

    lake = mirror(s3_server, bucket, tmp_path / "mirror", f"data/{scenario.topic}")
    assert lake.tally_by_duckdb() == Tally.of(range(produced[0]))
