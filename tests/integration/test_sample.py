"""The sample for Quix's public repository runs by itself, and its test finds every reading."""

import json
from pathlib import Path
from typing import Any

import yaml

from dev.broker import Broker
from dev.connector import Connector, environment
from dev.minio import LocalMinio
from dev.sample import NAME, export
from tests.services.main_process import run_main


def test_the_sample_and_its_test_work(kafka: Broker, s3_server: LocalMinio, tmp_path: Path) -> None:
    sample, test = export(tmp_path), tmp_path / "tests" / NAME
    services: dict[str, Any] = yaml.safe_load((test / "docker-compose.test.yml").read_text())["services"]
    library = json.loads((sample / "library.json").read_text())
    assert all(
        (sample / library[name]).is_file() for name in ("DefaultFile", "EntryPoint", "RunEntryPoint", "IconFile")
    )

    here = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "AWS_ENDPOINT_URL": s3_server.endpoint_url,
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
    }
    kafka.create_topic("test-readings", 1)
    with Connector({**services["sink"]["environment"], **here, "HTTP_PORT": "0"}, tmp_path / "log", sample):
        for script in ("produce_test_data.py", "verify_output.py"):
            done = run_main(environment=environment(here), main=[str(test / script)])
            assert done.returncode == 0, done.stdout + done.stderr
