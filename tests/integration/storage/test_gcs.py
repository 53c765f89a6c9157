"""What is particular to Google Cloud Storage, on a server that speaks its API."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.storage.gcs.client import RETRY, Limits
from app.storage.gcs.store import GcsStore
from dev.gcs_server import LocalGcsServer
from tests.faults.proxy import Answer, Cut, FaultProxy, Rule, Say, nth, on

pytestmark = pytest.mark.night  # for every day: tests/unit/storage/gcs

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


def test_a_piece_that_is_refused_is_sent_again(
    gcs_store: Make, gcs_bucket: str, big: Path, proxy: FaultProxy, tmp_path: Path
) -> None:
    broken = proxy.add(Rule(on("PUT"), Say(Answer(503)), nth(2)))
    store = gcs_store(gcs_bucket)

    store.upload(big, "t/f.parquet")

    assert broken.met == 1
    store.download("t/f.parquet", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == big.read_bytes()


def test_a_download_that_breaks_off_goes_on(
    gcs_store: Make, gcs_bucket: str, big: Path, proxy: FaultProxy, tmp_path: Path
) -> None:
    store = gcs_store(gcs_bucket)
    store.upload(big, "t/f.parquet")
    cut = proxy.add(Rule(on("GET"), Cut(), nth(1)))

    store.download("t/f.parquet", tmp_path / "copy")

    assert cut.met == 1
    assert (tmp_path / "copy").read_bytes() == big.read_bytes()


def test_of_a_download_that_keeps_breaking_off_nothing_is_left(
    gcs_store: Make, gcs_bucket: str, file: Path, proxy: FaultProxy, tmp_path: Path
) -> None:
    store = gcs_store(gcs_bucket, limits=Limits(retry=RETRY.with_timeout(0)))
    store.upload(file, "t/f.parquet")
    proxy.add(Rule(on("GET"), Cut()))

    with pytest.raises(RetryableError, match=rf"downloading gs://{gcs_bucket}/t/f\.parquet"):
        store.download("t/f.parquet", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    with pytest.raises(RetryableError, match=rf"reading gs://{gcs_bucket}/t/f\.parquet"):
        store.read("t/f.parquet")
    with pytest.raises(RetryableError, match=rf"listing gs://{gcs_bucket}/t/"):
        list(store.list("t/"))
