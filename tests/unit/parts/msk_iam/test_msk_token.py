"""Tokens for Amazon MSK."""

import sys
import types

import pytest

from app.parts.msk_iam.msk_token import MskToken
from tests.support.environment import load

PACKAGE = "aws_msk_iam_sasl_signer"


@pytest.mark.parametrize(
    ("broker", "region"),
    [
        ("b-1.a.b2c3.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.a.example.com:9098", "eu-west-1"),
        ("boot-a.c1.kafka-serverless.us-gov-east-1.amazonaws.com:9098", "us-gov-east-1"),
        ("b-1.a.b2c3.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.example.com:9098", "eu-west-3"),
    ],
)  # fmt: skip
def test_the_region_is_that_in_the_names_of_brokers_else_that_of_the_store(broker: str, region: str) -> None:
    assert MskToken(load(KAFKA_BOOTSTRAP_SERVERS=broker, AWS_REGION="eu-west-3")).region == region


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType(f"{PACKAGE}.MSKAuthTokenProvider")
    monkeypatch.setitem(sys.modules, PACKAGE, types.ModuleType(PACKAGE))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_the_time_of_expiry_is_in_seconds(signer: types.ModuleType) -> None:
    signer.generate_auth_token = lambda region: (f"token of {region}", 1_700_000_000_500)  # type: ignore[attr-defined]
    assert MskToken(load(AWS_REGION="eu-west-1"))("") == ("token of eu-west-1", 1_700_000_000.5)


def test_a_failure_is_told_and_forgotten_after_a_success(
    signer: types.ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(region: str) -> tuple[str, int]:
        raise OSError(f"no way to {region}\n")

    signer.generate_auth_token = fail  # type: ignore[attr-defined]
    token = MskToken(load(AWS_REGION="eu-west-1"))
    with pytest.raises(OSError, match="no way"):
        token("")
    assert token.failure == "OSError: no way to eu-west-1"
    assert "signing the login at Amazon MSK: OSError: no way to eu-west-1. Check the connector's role" in caplog.text

    signer.generate_auth_token = lambda _: ("token", 1)  # type: ignore[attr-defined]
    token("")
    assert token.failure is None
