"""What tests of Iceberg tables share."""

from pathlib import Path

import pytest

from tests.unit.parts.iceberg.iceberg_bench import IcebergBench


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rewrite", "table"):
        monkeypatch.setattr(f"app.parts.iceberg.{module}._LONGEST_PAUSE", 0.0)


@pytest.fixture
def bench(tmp_path: Path) -> IcebergBench:
    return IcebergBench(tmp_path)
