"""What is particular to Google Cloud Storage, on a server that speaks its API."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.parts.gcs.store import GcsStore
from dev.gcs_server import LocalGcsServer
from tests.faults.proxy import Cut, FaultProxy, Rule, nth, on

pytestmark = pytest.mark.night  # for every day: tests/unit/parts/gcs

Make = Callable[..., GcsStore]

BIG = 20_000_000  # bytes: three requests of a resumable upload


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big.parquet"
    path.write_bytes(bytes(range(251)) * (BIG // 251 + 1))
    return path


@pytest.fixture
def proxy(gcs_store: Make, gcs_server: LocalGcsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with FaultProxy(gcs_server.endpoint_url) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        yield proxy


def test_a_download_that_breaks_off_goes_on(
    gcs_store: Make, gcs_bucket: str, big: Path, proxy: FaultProxy, tmp_path: Path
) -> None:
    store = gcs_store(gcs_bucket)
    store.upload(big, "t/f.parquet")
    cut = proxy.add(Rule(on("GET"), Cut(), nth(1)))

    store.download("t/f.parquet", tmp_path / "copy")

    assert cut.met == 1
    assert (tmp_path / "copy").read_bytes() == big.read_bytes()
