"""Tokens for Amazon MSK; tests/integration/test_kafka_logins.py logs in with such tokens."""

import sys
import types

import pytest

from app.kafka.connection import MskToken

PACKAGE = "aws_msk_iam_sasl_signer"


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType(f"{PACKAGE}.MSKAuthTokenProvider")
    monkeypatch.setitem(sys.modules, PACKAGE, types.ModuleType(PACKAGE))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_the_time_of_expiry_is_in_seconds(signer: types.ModuleType) -> None:
    signer.generate_auth_token = lambda region: (f"token of {region}", 1_700_000_000_500)  # type: ignore[attr-defined]
    assert MskToken("eu-west-1")("") == ("token of eu-west-1", 1_700_000_000.5)


def test_a_failure_is_told_and_forgotten_after_a_success(
    signer: types.ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(region: str) -> tuple[str, int]:
        raise OSError(f"no way to {region}\n")

    signer.generate_auth_token = fail  # type: ignore[attr-defined]
    token = MskToken("eu-west-1")
    with pytest.raises(OSError, match="no way"):
        token("")
    assert token.failure == "OSError: no way to eu-west-1"
    assert "signing the login at Amazon MSK: OSError: no way to eu-west-1. Check the role" in caplog.text

    signer.generate_auth_token = lambda _: ("token", 1)  # type: ignore[attr-defined]
    token("")
    assert token.failure is None
