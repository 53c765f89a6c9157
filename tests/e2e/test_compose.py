"""``docker compose up`` ends in rows that one can look at: what its producer sends, its query shows."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from dev.connector import REPO
from dev.minio import LocalMinio
from tests.e2e.lake import mirror
from tests.e2e.scenario import Scenario, s3_store

SERVICES: dict[str, Any] = yaml.safe_load((REPO / "docker-compose.yml").read_text())["services"]
READINGS = 12
SECONDS = 60
TABLE = "/data/lake/data/sensor-data/"


def test_the_query_of_the_compose_file_shows_what_its_producer_sends(
    scenario: Scenario, s3_server: LocalMinio, bucket: str, tmp_path: Path
) -> None:
    *shell, script = SERVICES["producer"]["command"]
    script = re.sub(r"\S+/kafka-console-producer.sh .*", f"head -n {READINGS}", script.replace("$$", "$"))
    sent = subprocess.run([*shell, script], capture_output=True, check=True).stdout
    scenario.produce((None, line, None, None) for line in sent.splitlines())
    table = f"{tmp_path}/lake/data/{scenario.topic}/"
    *shell, script = SERVICES["first-file"]["entrypoint"]
    assert list(SERVICES["query"]["depends_on"].items()) == [
        ("first-file", {"condition": "service_completed_successfully"})
    ]
    with subprocess.Popen([*shell, script.replace(TABLE, table)]) as first_file:
        try:
            columns = SERVICES["sink"]["environment"]["HIVE_COLUMNS"]
            connector = scenario.connector(s3_store(s3_server, bucket), HIVE_COLUMNS=columns)
            scenario.wait_until_committed(READINGS, by=connector)
            assert first_file.poll() is None
            lake = mirror(s3_server, bucket, tmp_path / "lake")
            assert first_file.wait(SECONDS) == 0
        finally:
            first_file.kill()

    rows = lake.query(SERVICES["query"]["command"][-1].replace(TABLE, table))
    assert sum(readings for _, readings, *_ in rows) == READINGS
    assert {location for location, *_ in rows} <= {"hall-1", "hall-2", "hall-3"}
