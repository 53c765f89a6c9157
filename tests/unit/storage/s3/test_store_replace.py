"""Files replaced on condition where answers are lost, refused or not understood, over real HTTP."""

import logging
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.storage.base import ChangedError
from tests.fakes.canned_server import Answer, CannedServer
from tests.unit.storage.s3.canned_store import store

KEY = "t/f.parquet"
OURS = b"our rows"
WRITTEN = Answer(200, headers={"ETag": '"2"'})
HOLDS_OURS = Answer(200, OURS, {"ETag": '"2"'})
HOLDS_THEIRS = Answer(200, b"their rows", {"ETag": '"3"'})
HOLDS_MORE = Answer(200, OURS + b" and theirs", {"ETag": '"3"'})
HOLDS_LESS = Answer(200, OURS[:3], {"ETag": '"3"'})
HOLDS_OLD = Answer(200, b"old", {"ETag": '"1"'})


def refusal(status: int, code: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>said so</Message></Error>".encode())


CHANGED = refusal(412, "PreconditionFailed")
MISSING = refusal(404, "NoSuchKey")
UNKNOWN = refusal(501, "NotImplemented")
BROKEN = refusal(500, "InternalError")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 tries again as ever, only without sleeping in between."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ours.parquet"
    path.write_bytes(OURS)
    return path


def test_the_request_names_the_version_and_the_kind_of_file(file: Path) -> None:
    with CannedServer(WRITTEN) as server:
        replaced = store(server.url).replace(file, KEY, replaces='"1"')

    put = server.requests[0]
    assert (put.method, put.path, put.body) == ("PUT", f"/lake/{KEY}", OURS)
    assert put.headers["if-match"] == '"1"'
    assert put.headers["content-type"] == "application/vnd.apache.parquet"
    assert (replaced.key, replaced.size) == (KEY, 8)


@pytest.mark.parametrize("answers", [[CHANGED], [BROKEN, CHANGED], [BROKEN, BROKEN, BROKEN], [Answer(200)]])
def test_a_file_that_is_found_there_is_written_whatever_the_answer_was(file: Path, answers: list[Answer]) -> None:
    with CannedServer(*answers, HOLDS_OURS) as server:
        assert store(server.url).replace(file, KEY, replaces='"1"').size == len(OURS)


@pytest.mark.parametrize("found", [HOLDS_THEIRS, HOLDS_MORE, HOLDS_LESS, MISSING])
def test_another_version_is_told(file: Path, found: Answer) -> None:
    with CannedServer(CHANGED, found) as server, pytest.raises(ChangedError, match=f"s3://lake/{KEY}"):
        store(server.url).replace(file, KEY, replaces='"1"')


def test_what_did_not_arrive_can_be_tried_again(file: Path) -> None:
    with (
        CannedServer(BROKEN, BROKEN, BROKEN, HOLDS_OLD) as server,
        pytest.raises(RetryableError, match=f"uploading s3://lake/{KEY}"),
    ):
        store(server.url).replace(file, KEY, replaces='"1"')


@pytest.mark.parametrize("found", [HOLDS_THEIRS, MISSING])
def test_a_store_without_conditions_is_asked_first(file: Path, found: Answer, caplog: pytest.LogCaptureFixture) -> None:
    with CannedServer(UNKNOWN, found) as server, pytest.raises(ChangedError), caplog.at_level(logging.WARNING, "app"):
        store(server.url).replace(file, KEY, replaces='"1"')
    assert [request.method for request in server.requests].count("PUT") == 1
    assert "knows no conditional writes" in caplog.messages[0]


# --- new files ------------------------------------------------------------------------------------------------------


def test_a_file_is_uploaded_only_where_nothing_is(file: Path) -> None:
    with CannedServer(WRITTEN) as server:
        assert store(server.url).upload(file, KEY).size == len(OURS)
    assert [(each.method, each.headers["if-none-match"]) for each in server.requests] == [("PUT", "*")]


@pytest.mark.parametrize("answers", [[CHANGED], [BROKEN, CHANGED]])
def test_an_upload_that_finds_its_own_bytes_is_done(file: Path, answers: list[Answer]) -> None:
    with CannedServer(*answers, HOLDS_OURS) as server:
        assert store(server.url).upload(file, KEY).size == len(OURS)


@pytest.mark.parametrize("found", [HOLDS_THEIRS, HOLDS_MORE, HOLDS_LESS, MISSING])
def test_an_upload_that_finds_another_object_is_refused(file: Path, found: Answer) -> None:
    with CannedServer(CHANGED, found) as server, pytest.raises(ChangedError):
        store(server.url).upload(file, KEY)


def test_an_upload_to_a_store_that_knows_no_conditions_names_none(file: Path) -> None:
    with CannedServer(UNKNOWN, MISSING, WRITTEN, WRITTEN) as server:
        lake = store(server.url)
        for _ in range(2):
            lake.upload(file, KEY)
    assert not lake.refuses_overwrites
    assert [request.headers.get("if-none-match") for request in server.requests] == ["*", None, None, None]


def test_a_placeholder_replaces_whatever_is_there() -> None:
    with CannedServer(WRITTEN) as server:
        store(server.url).overwrite(KEY, b"no rows")
    (put,) = server.requests
    assert (put.method, put.body) == ("PUT", b"no rows")
    assert not {"if-match", "if-none-match"} & put.headers.keys()
