"""Conditional writes to Azure where answers are lost or refused, listings and reads of odd kinds, over real HTTP."""

import socket
from pathlib import Path

import pytest

from app.errors import FatalError, RetryableError
from app.storage.azure.client import BLOCK, Limits
from app.storage.base import ChangedError
from tests.fakes.azure_answers import SERVED, azure_store, holds, listing, refusal, written
from tests.fakes.canned_server import Answer, CannedServer

KEY = "t/_journal/schema.json"
OURS = b'{"by": "us"}'
HOLDS_OURS = holds(OURS, '"2"')
HOLDS_THEIRS = holds(b"theirs", '"3"')
HOLDS_OLD = holds(b"old", '"1"')
WRITTEN = written('"2"')

CHANGED = refusal(412, "ConditionNotMet")
EXISTS = refusal(409, "BlobAlreadyExists")
MISSING = refusal(404, "BlobNotFound")
BROKEN = refusal(500, "InternalError")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library tries again as ever, only without sleeping in between."""
    monkeypatch.setattr("azure.core.pipeline.transport.HttpTransport.sleep", lambda *_: None)


def methods(server: CannedServer) -> list[str]:
    return [request.method for request in server.requests]


@pytest.mark.parametrize(("replaces", "header"), [(None, ("if-none-match", "*")), ('"1"', ("if-match", '"1"'))])
def test_a_write_names_the_version_that_it_replaces(replaces: str | None, header: tuple[str, str]) -> None:
    with CannedServer(WRITTEN) as server:
        assert azure_store(server.url).write(KEY, OURS, replaces=replaces) == '"2"'

    (request,) = server.requests
    name, value = header
    assert (request.method, request.path, request.body) == ("PUT", f"/acme/lake/{KEY}", OURS)
    assert {each: request.headers[each] for each in ("if-match", "if-none-match") if each in request.headers} == {
        name: value
    }
    assert request.headers["x-ms-blob-content-type"] == "application/json"
    assert "content-md5" in request.headers


@pytest.mark.parametrize("replaces", [None, '"1"'])
@pytest.mark.parametrize(
    "answers",
    [
        [CHANGED],  # what the second try hears of the first one's object
        [EXISTS],
        [BROKEN, CHANGED],
        [BROKEN, BROKEN, BROKEN],
        [Answer(201)] * 3,  # a proxy's
    ],
)
def test_an_object_that_holds_our_body_is_written_whatever_the_answer_was(
    replaces: str | None, answers: list[Answer]
) -> None:
    with CannedServer(*answers, HOLDS_OURS) as server:
        assert azure_store(server.url).write(KEY, OURS, replaces=replaces) == '"2"'
    assert methods(server) == [*["PUT"] * len(answers), "GET"]


@pytest.mark.parametrize(
    ("answer", "found"), [(CHANGED, HOLDS_THEIRS), (EXISTS, HOLDS_THEIRS), (CHANGED, MISSING), (MISSING, MISSING)]
)
def test_a_version_that_is_gone_is_told(answer: Answer, found: Answer) -> None:
    with CannedServer(answer, found) as server, pytest.raises(ChangedError, match=f"az://lake/{KEY}"):
        azure_store(server.url).write(KEY, OURS, replaces='"1"')


@pytest.mark.parametrize("found", [HOLDS_THEIRS, HOLDS_OLD, MISSING])
def test_a_write_that_did_not_arrive_can_be_tried_again(found: Answer) -> None:
    with (
        CannedServer(BROKEN, BROKEN, BROKEN, found) as server,
        pytest.raises(RetryableError, match=f"writing az://lake/{KEY}"),
    ):
        azure_store(server.url).write(KEY, OURS, replaces='"1"')


def test_nobody_knows_what_was_written_while_the_object_cannot_be_read() -> None:
    with CannedServer(CHANGED, BROKEN) as server, pytest.raises(RetryableError, match=f"reading az://lake/{KEY}"):
        azure_store(server.url).write(KEY, OURS, replaces='"1"')


def test_a_service_that_never_answers_is_waited_for_no_longer_than_is_set() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(RetryableError, match=r"read timeout=0\.2"):
            azure_store(f"http://127.0.0.1:{port}/acme", limits=Limits(read_timeout=0.2)).read("t/a.json")


def test_a_container_that_is_gone_is_no_version_that_has_changed() -> None:
    with CannedServer(refusal(404, "ContainerNotFound")) as server, pytest.raises(FatalError, match="restart"):
        azure_store(server.url).write(KEY, OURS, replaces='"1"')


@pytest.mark.parametrize("replaces", ['"1"', None])
def test_a_large_file_is_sent_in_blocks_and_seen_when_all_are_there(tmp_path: Path, replaces: str | None) -> None:
    content = bytes(range(251)) * (BLOCK // 100)
    path = tmp_path / "large.parquet"
    path.write_bytes(content)
    with CannedServer(written('"2"'), written('"2"'), written('"2"'), written('"2"'), listing("t/f.parquet")) as server:
        if replaces:
            azure_store(server.url).replace(path, "t/f.parquet", replaces=replaces)
        else:
            azure_store(server.url).upload(path, "t/f.parquet")

    *blocks, last = [request for request in server.requests if request.method == "PUT"]
    assert ["comp=block&" in block.path for block in blocks] == [True] * 3
    assert b"".join(block.body for block in blocks) == content
    assert "comp=blocklist" in last.path
    assert last.headers.get("if-match") == replaces
    assert last.headers["x-ms-blob-content-type"] == "application/vnd.apache.parquet"
    assert not {"if-match", "if-none-match"} & blocks[0].headers.keys()


def test_a_listing_goes_on_over_all_pages() -> None:
    with CannedServer(listing("a", "b", after="more"), listing("c")) as server:
        found = list(azure_store(server.url).list("x/"))

    assert [(each.key, each.size, each.last_modified.isoformat()) for each in found] == [
        (key, 8, "2026-01-02T03:04:05+00:00") for key in ("a", "b", "c")
    ]
    assert "prefix=x%2F" in server.requests[0].path
    assert "marker=more" in server.requests[1].path


def test_folders_of_a_hierarchical_namespace_are_no_objects() -> None:
    with CannedServer(listing("t", "t/day=1", "t/day=1/f", folders=("t", "t/day=1"))) as server:
        assert [found.key for found in azure_store(server.url).list("t")] == ["t/day=1/f"]


@pytest.mark.parametrize("body", [b"<html></html>", b"no XML", b""])
def test_a_page_that_is_no_listing_is_no_empty_folder(body: bytes) -> None:
    with (
        CannedServer(Answer(200, body, {"Content-Type": "application/xml"})) as server,
        pytest.raises(RetryableError, match="listing az://lake/t/"),
    ):
        list(azure_store(server.url).list("t/"))


def test_an_object_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    size = BLOCK + 1
    first = Answer(206, bytes(BLOCK), {**SERVED, "ETag": '"1"', "Content-Range": f"bytes 0-{BLOCK - 1}/{size}"})
    with (
        CannedServer(first, CHANGED) as server,
        pytest.raises(RetryableError, match=r"downloading az://lake/t/f\.parquet"),
    ):
        azure_store(server.url).download("t/f.parquet", tmp_path / "copy")
    assert server.requests[1].headers["if-match"] == '"1"'
    assert not (tmp_path / "copy").exists()
