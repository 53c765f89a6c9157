"""The table of these tests."""

from pathlib import Path

import pytest

from tests.unit.parts.maintenance.lake import Lake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path, monkeypatch)
