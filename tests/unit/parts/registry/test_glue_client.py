"""The schema registry of AWS Glue, through boto3, against a small HTTP server: what it asks, and what answers mean."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.model import RegisteredSchema
from app.parts.registry.connection import new_registry
from app.parts.registry.schema_registry import SchemaRegistry
from app.reason_texts import reason_of
from tests.fakes.canned_server import Answer, CannedServer
from tests.support.environment import load

VERSION = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
OTHER = UUID("00000000-0000-0000-0000-000000000001")
GLUE = {"KAFKA_VALUE_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": "glue://eu-west-1/sensors", "input": "readings"}
OWN = {"SCHEMA_REGISTRY_USERNAME": "AKIAREGISTRY", "SCHEMA_REGISTRY_PASSWORD": "s3cret"}
OF_STORE = {"AWS_ACCESS_KEY_ID": "AKIASTORE", "AWS_SECRET_ACCESS_KEY": "of-the-store"}
MINIO = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
REGISTRY = r"SCHEMA_REGISTRY_URL"


def answer(status: int = 200, **document: Any) -> Answer:
    return Answer(status, json.dumps(document).encode(), {"Content-Type": "application/x-amz-json-1.1"})


def refusal(code: str, status: int = 400) -> Answer:
    return answer(status, __type=code, Message=f"it is {code}")


LONG = answer(SchemaVersionId=str(VERSION), SchemaDefinition='"long"', DataFormat="AVRO", VersionNumber=3)
UNKNOWN = refusal("EntityNotFoundException")
DENIED = refusal("AccessDeniedException")
Opened = Callable[..., tuple[CannedServer, SchemaRegistry]]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens the registry as the connector does; the environment has what the test names and no other login."""
    with ExitStack() as servers:

        def open_registry(*answers: Answer, **variables: str) -> tuple[CannedServer, SchemaRegistry]:
            server = servers.enter_context(CannedServer(*answers))
            settings = load(**GLUE, **(variables or OWN))
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
                monkeypatch.delenv(name, raising=False)
            for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
                monkeypatch.setenv(name, str(tmp_path / "none"))
            monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", server.url)
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            return server, new_registry(settings, tmp_path)

        yield open_registry


def test_the_latest_schema_has_the_name_of_the_topic(opened: Opened) -> None:
    server, registry = opened(LONG, UNKNOWN)
    assert registry.latest() == f'AVRO, version 3, id {VERSION}: "long"'
    assert registry.latest() is None
    assert server.requests[0].json() == {
        "SchemaId": {"SchemaName": "readings", "RegistryName": "sensors"},
        "SchemaVersionNumber": {"LatestVersion": True},
    }


def test_protobuf_is_the_text_that_glue_has(opened: Opened) -> None:
    text = 'syntax = "proto3"; message X {}'
    server, registry = opened(answer(SchemaVersionId=str(VERSION), SchemaDefinition=text, DataFormat="PROTOBUF"))
    assert registry.find(VERSION) == RegisteredSchema("PROTOBUF", text, is_of_glue=True)
    assert len(server.requests) == 1, "it has no descriptors"


@pytest.mark.parametrize("schema", [OTHER, 7], ids=["a version that is gone", "a number, as Confluent's"])
def test_an_id_that_glue_does_not_know(opened: Opened, schema: Any) -> None:
    _, registry = opened(UNKNOWN)
    with pytest.raises(ValueError, match="no schema with its id: see SCHEMA_REGISTRY_URL"):
        registry.find(schema)


OF_ONE_ID = {
    "refused": DENIED,
    "no valid id": refusal("InvalidInputException"),
    "an answer without a schema": answer(DataFormat="AVRO"),
    "a page": Answer(200, b"<html>log in</html>"),
}


@pytest.mark.parametrize("name", OF_ONE_ID)
@pytest.mark.parametrize("others", [LONG, UNKNOWN], ids=["a schema", "none"])
def test_what_glue_answers_for_one_id_is_no_outage(opened: Opened, name: str, others: Answer) -> None:
    _, registry = opened(OF_ONE_ID[name], others)
    with pytest.raises(ValueError, match="refuses its schema"):
        registry.find(VERSION)


def test_a_login_that_may_not_see_the_schema_of_the_topic_is_tried_by_one_that_it_saw(opened: Opened) -> None:
    _, registry = opened(LONG, DENIED, LONG)
    registry.find(VERSION)
    with pytest.raises(ValueError, match="refuses its schema") as caught:
        registry.find(OTHER)
    assert "AccessDeniedException" in reason_of(caught.value).whole


BUSY = {
    "ThrottlingException": refusal("ThrottlingException"),
    "TooManyRequestsException": refusal("TooManyRequestsException"),
    "RequestLimitExceeded": refusal("RequestLimitExceeded"),
    "429": Answer(429, b"<html>slow down</html>"),
}


@pytest.mark.parametrize("name", BUSY)
def test_a_registry_that_is_asked_too_often_is_waited_for_though_it_answers_others(opened: Opened, name: str) -> None:
    _, registry = opened(LONG, *[BUSY[name]] * 10, LONG)
    registry.find(VERSION)
    for _ in range(9):
        with pytest.raises(RetryableError, match=name):
            registry.find(OTHER)
    with pytest.raises(RetryableError, match=name):
        registry.latest()
    assert registry.find(OTHER)


AWAY = {
    "a login without the right": DENIED,
    "a fault of Glue": refusal("InternalServiceException", 500),
    "a proxy without its server": Answer(502, b"<html>bad gateway</html>"),
    "another service": Answer(404, b"<html>no such page</html>"),
    "a page instead of an answer": Answer(200, b"<html>log in</html>"),
    "an answer of another form": Answer(200, b"[1]"),
    "an answer that is too deep": Answer(200, b"[" * 200_000),
}


@pytest.mark.parametrize("name", AWAY)
def test_a_registry_that_answers_no_question_is_waited_for_and_named_at_the_start(opened: Opened, name: str) -> None:
    _, registry = opened(AWAY[name])
    with pytest.raises(
        RetryableError, match=f"asking the schema registry at glue://.* with the id {VERSION}"
    ) as caught:
        registry.find(VERSION)
    assert caught.value.system == "registry"
    with pytest.raises(ConnectorError, match=REGISTRY):
        registry.latest()


def test_a_registry_that_is_away(opened: Opened) -> None:
    server, registry = opened(LONG)
    server.__exit__(None, None, None)
    with pytest.raises(RetryableError, match=REGISTRY):
        registry.find(VERSION)


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        (OWN, "AKIAREGISTRY"),
        (OF_STORE, "AKIASTORE"),
        (OF_STORE | {"AWS_ENDPOINT_URL": "https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com"}, "AKIASTORE"),
        (OF_STORE | MINIO | OWN, "AKIAREGISTRY"),
    ],
    ids=["its own", "those of a store at AWS", "those of a store at AWS by its address", "its own beside MinIO's"],
)
def test_with_which_keys_it_asks(opened: Opened, variables: dict[str, str], key: str) -> None:
    server, registry = opened(LONG, **variables)
    registry.find(VERSION)
    assert f"Credential={key}/" in server.requests[0].headers["authorization"]


def test_the_keys_of_another_store_are_not_shown_to_aws(opened: Opened) -> None:
    server, registry = opened(LONG, **OF_STORE, **MINIO)
    with pytest.raises(FatalError, match="SCHEMA_REGISTRY_USERNAME") as caught:
        registry.latest()
    assert "redentials" in caught.value.cause
    assert not server.requests


def test_a_role_logs_in_at_the_address_of_the_token_service(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken")
    role = {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/reader", "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
    with CannedServer(Answer(200, _OF_ROLE, {"Content-Type": "text/xml"})) as sts:
        server, registry = opened(LONG, **OF_STORE, **MINIO, **role, AWS_ENDPOINT_URL_STS=sts.url)
        registry.find(VERSION)
        assert sts.requests
    assert "Credential=AKIAROLE/" in server.requests[0].headers["authorization"]


_OF_ROLE = b"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>t</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


def test_without_an_address_of_its_own_it_is_that_of_the_region_and_not_the_stores(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(_: object, request: Any) -> None:
        asked.append(request.url)
        raise ConnectionError(request.url)

    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", refuse)
    _, registry = opened(LONG, **OF_STORE, **MINIO, **OWN)
    monkeypatch.delenv("AWS_ENDPOINT_URL_GLUE")
    with pytest.raises(ConnectionError):
        registry.latest()
    assert re.fullmatch(r"https://glue\.eu-west-1\.(amazonaws\.com|api\.aws)/", asked[0])
