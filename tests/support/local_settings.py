"""Settings of a table in a local folder, without a Kafka."""

from pathlib import Path

from app.config.settings import Settings
from tests.support.environment import load


def local_settings(lake: Path, **variables: str) -> Settings:
    base = {"STORAGE_URL": f"file://{lake}", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}
    return load(base, **variables)
