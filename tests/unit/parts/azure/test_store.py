"""How objects travel to and from Azure, over real HTTP."""

import socket
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.parts.azure.store import BLOCK
from app.storage.base import ChangedError
from tests.fakes.azure_answers import SERVED, azure_store, holds, listing, refusal, written
from tests.fakes.canned_server import Answer, CannedServer

KEY = "t/_journal/schema.json"
OURS = b'{"by": "us"}'


def test_each_way_to_store_names_the_version_that_it_replaces() -> None:
    with CannedServer(written('"2"')) as server:
        store = azure_store(server.url)
        store.write(KEY, OURS, replaces=None)
        store.write(KEY, OURS, replaces='"1"')
        store.overwrite(KEY, OURS)

    assert [put.conditions for put in server.requests] == [{"if-none-match": "*"}, {"if-match": '"1"'}, {}]
    for put in server.requests:
        assert (put.method, put.path, put.body) == ("PUT", f"/acme/lake/{KEY}", OURS)
        assert put.headers["x-ms-blob-content-type"] == "application/json"
        assert "content-md5" in put.headers


@pytest.mark.parametrize("answer", [refusal(409, "BlobAlreadyExists"), refusal(404, "BlobNotFound")])
def test_a_refused_condition_has_several_names(answer: Answer) -> None:
    with CannedServer(answer, holds(b"theirs", '"3"')) as server, pytest.raises(ChangedError):
        azure_store(server.url).write(KEY, OURS, replaces='"1"')


def test_a_service_that_never_answers_is_waited_for_no_longer_than_is_set() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(RetryableError, match=r"read timeout=0\.2"):
            azure_store(f"http://127.0.0.1:{port}", timeouts=(10, 0.2)).read("t/a.json")


def test_a_large_file_is_sent_in_blocks_and_seen_when_all_are_there(tmp_path: Path) -> None:
    content = bytes(range(251)) * (BLOCK // 100)
    path = tmp_path / "large.parquet"
    path.write_bytes(content)
    with CannedServer(written('"2"')) as server:
        stored = azure_store(server.url).upload(path, "t/f.parquet")

    assert (stored.key, stored.size, stored.last_modified.year) == ("t/f.parquet", len(content), 2026)
    *blocks, last = server.requests
    assert ["comp=block&" in block.path for block in blocks] == [True] * 3
    assert b"".join(block.body for block in blocks) == content
    assert "comp=blocklist" in last.path
    assert (blocks[0].conditions, last.conditions) == ({}, {"if-none-match": "*"})
    assert last.headers["x-ms-blob-content-type"] == "application/vnd.apache.parquet"


def test_folders_of_a_hierarchical_namespace_are_no_objects() -> None:
    with CannedServer(listing("t", "t/day=1", "t/day=1/f", folders=("t", "t/day=1"))) as server:
        assert [found.key for found in azure_store(server.url).list("t")] == ["t/day=1/f"]


def test_an_object_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    size = BLOCK + 1
    first = Answer(206, bytes(BLOCK), {**SERVED, "ETag": '"1"', "Content-Range": f"bytes 0-{BLOCK - 1}/{size}"})
    with (
        CannedServer(first, refusal(412, "ConditionNotMet")) as server,
        pytest.raises(RetryableError, match=r"downloading az://lake/t/f\.parquet"),
    ):
        azure_store(server.url).download("t/f.parquet", tmp_path / "copy")
    assert server.requests[1].headers["if-match"] == '"1"'
    assert not (tmp_path / "copy").exists()
