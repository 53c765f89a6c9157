"""The start: what it logs, and a stop that did not come through as what the signal's handler raised."""

import logging
import tempfile
from pathlib import Path

import pytest

import app.service.run
from app.config.settings import Settings
from app.container import MemoryLimit
from app.delivery.runtime import Runtime
from app.errors import ConfigError
from app.service.process import Process
from app.spark.writer import SparkWriter
from tests.support.environment import BROKER_ALONE, load


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return load(BROKER_ALONE, input="readings", STORAGE_URL=f"file://{tmp_path}/lake")


@pytest.mark.parametrize(("stopped", "code"), [(True, 0), (False, 1)])
def test_whatever_fails_after_a_signal_at_the_start_is_a_stop(
    settings: Settings, stopped: bool, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def fail(_settings: Settings, _runtime: Runtime, _spark: SparkWriter, process: Process) -> None:
        if stopped:
            process.stop.set()
        raise AttributeError("no attribute 'topic'")

    monkeypatch.setattr(Process, "handle_signals", lambda _: None)
    monkeypatch.setattr("app.service.run.consume", fail)
    assert app.service.run.run(settings) == code
    assert ("stopped while starting" in caplog.text) is stopped
    assert ("Please report this as a bug" in caplog.text) is not stopped


def test_the_start_warns_of_settings_that_the_container_has_no_memory_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.config.settings.memory_limit", lambda: MemoryLimit(1536, "/sys/fs/cgroup/memory.max"))
    monkeypatch.setattr("app.service.run.consume", lambda *_: None)
    monkeypatch.setattr(Process, "handle_signals", lambda _: None)
    assert app.service.run.run(load(SPARK_DRIVER_MEMORY="1g")) == 0
    [warning] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "limit of 1,536 MB" in warning
    assert "SPARK_DRIVER_MEMORY=1024m" in warning


def test_the_connector_itself_runs_on_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Only the commands compact and erase can use a cluster"):
        SparkWriter(load(SPARK_MASTER="spark://host:7077").spark, tmp_path)
