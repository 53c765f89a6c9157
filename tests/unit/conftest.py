"""What unit tests share."""

import pytest

from tests.fakes.outgoing import Outgoing


@pytest.fixture
def outgoing(monkeypatch: pytest.MonkeyPatch) -> Outgoing:
    """Let no request of boto3 out, and keep each."""
    network = Outgoing()
    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", lambda _, request: network.send(request))
    return network
