"""The SDK at a server whose answers are canned."""

import pytest


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tries again as ever, only without sleeping in between."""
    monkeypatch.setattr("azure.core.pipeline.transport.HttpTransport.sleep", lambda *_: None)
