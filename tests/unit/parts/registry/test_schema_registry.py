"""The client of the schema registry, against a small HTTP server: what it asks, and what each answer means."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.model import RegisteredSchema
from app.parts.http.rest_client import Credentials, RestClient
from app.parts.registry.schema_registry import SERVICE, SchemaRegistry
from app.reason_texts import reason_of
from tests.fakes.canned_server import Answer, CannedServer, Request
from tests.fakes.clock import Clock

UNKNOWN = Answer(404, b'{"error_code":40403,"message":"Schema not found"}')
LONG = RegisteredSchema("AVRO", '"long"')
NOBODY = Credentials()
GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


def answer(**document: Any) -> Answer:
    return Answer(200, json.dumps(document).encode(), {"Content-Type": "application/vnd.schemaregistry.v1+json"})


def registry_at(url: str, credentials: Credentials = NOBODY, topic: str = "sensors", **more: Any) -> SchemaRegistry:
    return SchemaRegistry(url, RestClient(SERVICE, url, credentials), f"{topic}-value", **more)


Opened = Callable[..., tuple[CannedServer, SchemaRegistry]]


@pytest.fixture
def opened() -> Iterator[Opened]:
    with ExitStack() as servers:

        def open_registry(
            *answers: Answer, credentials: Credentials = NOBODY, topic: str = "sensors"
        ) -> tuple[CannedServer, SchemaRegistry]:
            server = servers.enter_context(CannedServer(*answers))
            return server, registry_at(f"{server.url}/api", credentials, topic)

        yield open_registry


@pytest.mark.parametrize(("schema", "path"), [(7, "/api/schemas/ids/7"), (GUID, f"/api/schemas/guids/{GUID}")])
def test_a_schema_is_found_by_its_id_with_its_kind(opened: Opened, schema: Any, path: str) -> None:
    server, registry = opened(answer(schema='"long"'))
    assert registry.find(schema) == LONG
    assert {request.path for request in server.requests} == {path}


def test_of_protobuf_the_descriptors_are_asked_for(opened: Opened) -> None:
    server, registry = opened(
        answer(schema='syntax = "proto3"; message X {}', schemaType="PROTOBUF"),
        answer(schema="WA==", schemaType="PROTOBUF", references=[{"name": "y.proto", "subject": "y", "version": 2}]),
        answer(schema="WQ==", schemaType="PROTOBUF"),
    )
    assert registry.find(7) == RegisteredSchema("PROTOBUF", "WA==", ("WQ==",), ("y.proto",))
    paths = [request.path for request in server.requests]
    assert paths == [
        "/api/schemas/ids/7",
        "/api/schemas/ids/7?format=serialized",
        "/api/subjects/y/versions/2",
    ]


def test_schemas_that_a_schema_names_stand_before_it(opened: Opened) -> None:
    server, registry = opened(
        answer(schema="A", references=[{"name": "b", "subject": "b/b", "version": 2}, _named("c", 1)]),
        answer(schema="B", references=[_named("c", 1)]),
        answer(schema="C"),
    )
    assert registry.find(1) == RegisteredSchema("AVRO", "A", ("C", "B"), ("c", "b"))
    paths = [request.path for request in server.requests]
    assert paths == ["/api/schemas/ids/1", "/api/subjects/b%2Fb/versions/2", "/api/subjects/c/versions/1"]


def _named(subject: str, version: int) -> Mapping[str, Any]:
    return {"name": subject, "subject": subject, "version": version}


def test_schemas_that_name_each_other_come_to_an_end(opened: Opened) -> None:
    _, registry = opened(answer(schema="A", references=[_named("a", 1)]))
    assert registry.find(1) == RegisteredSchema("AVRO", "A", ("A",), ("a",))


def test_an_id_that_the_registry_does_not_know(opened: Opened) -> None:
    server, registry = opened(UNKNOWN)
    with pytest.raises(ValueError, match="no schema with its id"):
        registry.find(1)
    assert len(server.requests) == 1


OF_ONE_ID = {
    "a GUID at a registry that has none": Answer(404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'),
    "an id that this login may not read": Answer(403, b'{"error_code":40301,"message":"User is denied"}'),
    "a request that it does not understand": Answer(422, b"no such id"),
    "an answer that lacks the schema": Answer(200, b"{}"),
    "a schema that is no text": answer(schema={"type": "long"}),
    "references of another form": answer(schema="A", references=[7]),
    "endless references": answer(
        schema="A", references=[{"name": "a", "subject": "a", "version": n} for n in range(2_000)]
    ),
}


@pytest.mark.parametrize("name", OF_ONE_ID)
@pytest.mark.parametrize("begins_with_it", [True, False])
def test_what_a_registry_answers_for_one_id_is_no_outage(opened: Opened, name: str, begins_with_it: bool) -> None:
    known, subjects = answer(schema='"long"'), Answer(200, b"[]")
    of_id = [OF_ONE_ID[name]]
    if name == "endless references":
        of_id += [answer(schema="B")] * 100
    others = [*of_id, subjects] if begins_with_it else [known, *of_id, known]
    server, registry = opened(*others)
    if not begins_with_it:
        registry.find(1)
    with pytest.raises(ValueError, match="refuses its schema"):
        registry.find(7)
    assert len(server.requests) == len(others)


@pytest.mark.parametrize("of_topic", [answer(schema='"long"'), UNKNOWN])
def test_a_login_that_may_not_list_subjects_is_tried_by_that_of_the_topic(opened: Opened, of_topic: Answer) -> None:
    denied = Answer(403, b'{"error_code":40301,"message":"User is denied"}')
    server, registry = opened(denied, denied, of_topic)
    with pytest.raises(ValueError, match="refuses its schema"):
        registry.find(7)
    assert server.requests[2].path == "/api/subjects/sensors-value/versions/latest"


def test_references_take_no_gigabytes(opened: Opened) -> None:
    of_id = answer(schema="A", references=[_named(f"a{n}", 1) for n in range(100)])
    server, registry = opened(of_id, *[answer(schema="A" * (9 << 20))] * 2, Answer(200, b"[]"))
    with pytest.raises(ValueError, match="refuses its schema") as caught:
        registry.find(7)
    assert "16 MB" in reason_of(caught.value).whole
    assert len(server.requests) == 4


def test_an_id_without_an_answer_is_asked_for_again_before_it_is_given_up(opened: Opened) -> None:
    clock = Clock()
    with FailingForIds() as server:
        registry = registry_at(server.url, clock=clock)
        tries = [outcome(registry, 7) for _ in range(6)]
        assert tries == ["waits"] * 4 + ["refused"] * 2
        assert [outcome(registry, 8) for _ in range(5)][-2:] == ["waits", "refused"]
        assert [outcome(registry, 9) for _ in range(5)][-1] == "refused"
        assert outcome(registry, 10) == "refused", "not each of many is waited for"
        clock.advance(301)
        assert outcome(registry, 11) == "waits", "those of long ago do not count"
        clock.advance(15)
        assert outcome(registry, 11) == "refused", "tries may take long"
        server.works = True
        assert outcome(registry, 7) == "found"


class FailingForIds(CannedServer):
    """Answers 500 for each schema until it ``works``; the list of subjects is there."""

    works = False

    def next_answer(self, request: Request) -> Answer:
        if request.path.startswith("/subjects"):
            return Answer(200, b"[]")
        return answer(schema='"long"') if self.works else Answer(500)


def outcome(registry: SchemaRegistry, schema: int) -> str:
    try:
        registry.find(schema)
    except RetryableError:
        return "waits"
    except ValueError:
        return "refused"
    return "found"


AWAY = {
    "a 404 of something else": Answer(404, b"<html>no such page</html>"),
    "a proxy without its server": Answer(502),
    "a login that is over": Answer(401),
    "a redirect": Answer(302, headers={"Location": "http://somewhere.invalid/"}),
    "a page instead of an answer": Answer(200, b"<html>log in</html>"),
    "a huge answer": Answer(200, b"x" * (17 << 20)),
}


@pytest.mark.parametrize("name", AWAY)
def test_a_registry_that_answers_no_question_is_waited_for(opened: Opened, name: str) -> None:
    server, registry = opened(AWAY[name])
    with pytest.raises(RetryableError, match=r"asking the schema registry at .* with the id 1: ") as caught:
        registry.find(1)
    assert caught.value.system == "registry"
    assert len(server.requests) <= 3, "a redirect is not followed"


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        (Credentials(), None),
        (Credentials(token="t0ken"), "Bearer t0ken"),
        (Credentials(user="user", password="pässword"), "Basic dXNlcjpww6Rzc3dvcmQ="),
    ],
)
def test_credentials_are_sent(opened: Opened, credentials: Credentials, header: str | None) -> None:
    server, registry = opened(answer(schema='"long"'), credentials=credentials)
    registry.find(1)
    assert server.requests[0].headers.get("authorization") == header


def test_a_password_that_the_registry_repeats_is_not_shown(opened: Opened) -> None:
    credentials = Credentials(user="user", password="s3cret")
    _, registry = opened(Answer(401, b"wrong password s3cret"), credentials=credentials)
    with pytest.raises(FatalError, match=r"wrong password \*\*\*.*SCHEMA_REGISTRY_PASSWORD"):
        registry.latest()


def test_the_latest_schema_of_a_subject(opened: Opened) -> None:
    server, registry = opened(answer(subject="s", id=5, version=2, schema='"long"'), UNKNOWN, topic="a/b")
    assert registry.latest() == 'AVRO, version 2, id 5: "long"'
    assert server.requests[0].path == "/api/subjects/a%2Fb-value/versions/latest"
    assert registry.latest() is None


@pytest.mark.parametrize("wrong", [Answer(401), Answer(404, b"<html>"), answer(schema="A"), Answer(200, b"[]")])
def test_a_registry_that_cannot_be_used_is_named_at_once(opened: Opened, wrong: Answer) -> None:
    _, registry = opened(wrong)
    with pytest.raises(ConnectorError, match="SCHEMA_REGISTRY_") as caught:
        registry.latest()
    assert isinstance(caught.value, FatalError)
