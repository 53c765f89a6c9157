"""What unit tests share."""

import signal
from collections.abc import Iterator
from pathlib import Path

import botocore.loaders
import pytest

from tests.fakes.outgoing import Outgoing


@pytest.fixture(autouse=True, scope="session")
def _models_are_read_once() -> Iterator[None]:
    """Every client of boto3 reads what AWS can do from files of megabytes; here it is read for all of them at once."""
    loader = botocore.loaders.create_loader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.session.create_loader", lambda _: loader)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_pauses() -> Iterator[None]:
    """The libraries try again as ever, only without sleeping in between."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
        patch.setattr("azure.core.pipeline.transport.HttpTransport.sleep", lambda *_: None)
        yield


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    """What a command changes of the process is as before after each test."""
    former = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, former)


@pytest.fixture(autouse=True)
def _memory_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """What settings follow must not depend on the container that the tests run in."""
    monkeypatch.setattr("app.config.settings.memory_limit", lambda: None)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no authorities of the machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ours.parquet"
    path.write_bytes(b"PAR1")
    return path


@pytest.fixture
def outgoing(monkeypatch: pytest.MonkeyPatch) -> Outgoing:
    """Let no request of boto3 out, and keep each."""
    network = Outgoing()
    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", lambda _, request: network.send(request))
    return network
