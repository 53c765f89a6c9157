"""What cannot work ends the process at once, with a message that says what to do: no stack trace, no secret."""

import re
import uuid

import pytest

from dev.minio import LocalMinio
from tests.e2e.connector import ConnectorProcess
from tests.e2e.scenario import Scenario, s3_store

SECRET = "do-not-show-me"


def _refusal(connector: ConnectorProcess, exit_code: int) -> str:
    """The message on the line that the platform's connection test looks for."""
    assert connector.wait() == exit_code
    assert "Traceback" not in connector.log
    assert "CONNECTED!" not in connector.log
    assert SECRET not in connector.log
    connector.wait_until_nothing_is_left()
    message = re.search(r"^ERROR! ((?:.|\n  )*)", connector.log, re.MULTILINE)
    assert message, connector.log
    return message[1]


@pytest.mark.parametrize("create", [False, True])
def test_a_missing_bucket_is_created_only_if_a_setting_says_so(
    scenario: Scenario, s3_server: LocalMinio, *, create: bool
) -> None:
    """A misspelled name must not get a bucket of its own."""
    bucket = f"missing-{uuid.uuid4().hex[:8]}"
    connector = scenario.connector(s3_store(s3_server, bucket), CREATE_BUCKET=str(create))
    if create:
        connector.wait_for_log("CONNECTED!")
    else:
        message = _refusal(connector, exit_code=2)
        assert message.startswith(f"connecting to s3://{bucket}: The specified bucket does not exist (NoSuchBucket). ")
        assert "CREATE_BUCKET=true" in message

    found = [found["Name"] for found in s3_server.client().list_buckets()["Buckets"]]
    assert (bucket in found) == create
