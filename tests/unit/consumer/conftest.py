"""The application on the bench, with its partitions assigned; tests of the sink alone have a bench of their own."""

from pathlib import Path

import pytest

from tests.unit.consumer.application_bench import Bench


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """A bad record ends the process here."""
    bench = Bench(monkeypatch, tmp_path)
    bench.assign()
    return bench


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Bad records go to the dead letter here."""
    bench = Bench(monkeypatch, tmp_path, "dead-letter")
    bench.assign()
    return bench
