"""Stores of all SDKs at a server whose answers are canned."""

import pytest


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries try again as ever, only without sleeping in between."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    monkeypatch.setattr("azure.core.pipeline.transport.HttpTransport.sleep", lambda *_: None)
