"""A role of another account: its keys expire all the time, and are refused and given back, on a real store."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from app.errors import RetryableError
from app.storage.s3.store import S3Store
from app.storage.targets import S3Target
from dev.minio import LocalMinio
from tests.fakes.canned_server import Answer, CannedServer
from tests.services.minio_rights import restricted_keys

ARN = "arn:aws:iam::123456789012:role/lake"
DENIED = Answer(
    403,
    b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User: arn:aws:iam::1:user/u is not "
    b"authorized to perform: sts:AssumeRole on resource: " + ARN.encode() + b"</Message></Error></ErrorResponse>",
)
ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}]}


@pytest.fixture
def token_service() -> Iterator[CannedServer]:
    with CannedServer(DENIED) as server:
        yield server


def given(server: LocalMinio) -> Answer:
    """Keys of the role that are renewed before the next request."""
    keys = restricted_keys(server, ALL)
    end = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    body = (
        f"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{keys['access_key']}</AccessKeyId>"
        f"<SecretAccessKey>{keys['secret_key']}</SecretAccessKey><SessionToken>{keys['session_token']}</SessionToken>"
        f"<Expiration>{end}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
    )
    return Answer(200, body.encode())


def test_its_keys_are_renewed_and_a_role_that_is_taken_away_is_waited_for(
    s3_server: LocalMinio, bucket: str, token_service: CannedServer, file: Path
) -> None:
    role: dict[str, Any] = {"role_arn": ARN, "role_external_id": "shared-secret", "role_session": "orders"}
    role["sts_endpoint_url"] = token_service.url
    target = S3Target(bucket, s3_server.region, s3_server.endpoint_url, "a-key-of-nobody-there", "secret", **role)
    store = S3Store(target, max_workers=4)
    with pytest.raises(RetryableError, match=r"sts:AssumeRole on resource.*trust policy.*S3_ROLE_EXTERNAL_ID"):
        store.connect("")
    for answer in (given(s3_server), DENIED, Answer(200, b"<html>a proxy</html>"), given(s3_server)):
        token_service.answers(answer)
        if b"AccessKeyId" not in answer.body:
            with pytest.raises(RetryableError, match=r"S3_ROLE_ARN|the role given to this machine"):
                store.upload(file, "t/refused.parquet")
        else:
            for number in range(3):
                store.upload(file, f"t/{number}.parquet")
    assert [found.key for found in store.list("t/")] == [f"t/{number}.parquet" for number in range(3)]
    asked = [parse_qs(request.body.decode()) for request in token_service.requests]
    assert len(asked) > 6, "once for each request"
    names = ("Action", "RoleArn", "ExternalId", "RoleSessionName")
    assert [asked[-1][name] for name in names] == [["AssumeRole"], [ARN], ["shared-secret"], ["orders"]]
