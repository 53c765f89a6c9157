"""A stop during the start that did not come through as what the signal's handler raised."""

import logging
from pathlib import Path

import pytest

import app.service.run
from app.config.settings import Settings
from tests.support.environment import BROKER_ALONE, load


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("app.service.run.make_scratch", lambda: tmp_path)
    return load(BROKER_ALONE, input="readings", STORAGE_URL=f"file://{tmp_path}/lake")


@pytest.mark.parametrize(("stopped", "code"), [(True, 0), (False, 1)])
def test_whatever_fails_after_a_signal_at_the_start_is_a_stop(
    settings: Settings,
    stopped: bool,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    def fail(service: app.service.run._Service) -> None:
        if stopped:
            service._stop.set()
        raise AttributeError("no attribute 'topic'")

    monkeypatch.setattr(app.service.run._Service, "run", fail)
    assert app.service.run.run(settings) == code
    assert ("stopped while starting" in caplog.text) is stopped
    assert ("Please report this as a bug" in caplog.text) is not stopped
