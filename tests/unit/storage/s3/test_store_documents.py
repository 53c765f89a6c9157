"""Conditional writes where answers are lost, refused or not understood, and reads that break off, over real HTTP."""

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from app.errors import ConnectorError, FatalError, RetryableError
from app.storage.base import ChangedError, Document
from tests.fakes.canned_server import Answer, CannedServer
from tests.unit.storage.s3.canned_store import store

KEY = "t/_journal/schema.json"
OURS = b'{"by": "us"}'
WRITTEN = Answer(200, headers={"ETag": '"2"'})
HOLDS_OURS = Answer(200, OURS, {"ETag": '"2"'})
HOLDS_THEIRS = Answer(200, b"theirs", {"ETag": '"3"'})
HOLDS_OLD = Answer(200, b"old", {"ETag": '"1"'})


def refusal(status: int, code: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>said so</Message></Error>".encode())


CHANGED = refusal(412, "PreconditionFailed")
MISSING = refusal(404, "NoSuchKey")
CONFLICT = refusal(409, "ConditionalRequestConflict")
UNKNOWN = refusal(501, "NotImplemented")
BROKEN = refusal(500, "InternalError")
DENIED = refusal(403, "AccessDenied")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 tries again as ever, only without sleeping in between."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)


def methods(server: CannedServer) -> list[str]:
    return [request.method for request in server.requests]


@pytest.mark.parametrize(("replaces", "header"), [(None, ("if-none-match", "*")), ('"1"', ("if-match", '"1"'))])
def test_a_write_names_the_version_that_it_replaces(replaces: str | None, header: tuple[str, str]) -> None:
    with CannedServer(WRITTEN) as server:
        assert store(server.url).write(KEY, OURS, replaces=replaces) == '"2"'

    (request,) = server.requests
    name, value = header
    assert (request.method, request.path, request.body) == ("PUT", f"/lake/{KEY}", OURS)
    assert {key: request.headers[key] for key in ("if-match", "if-none-match") if key in request.headers} == {
        name: value
    }


@pytest.mark.parametrize("replaces", [None, '"1"'])
@pytest.mark.parametrize(
    "answers",
    [
        [CHANGED],  # what the second try hears of the first one's object
        [BROKEN, CHANGED],
        [BROKEN, BROKEN, BROKEN],
        [CONFLICT],
        [Answer(200)],  # no ETag: a proxy's
    ],
)
def test_an_object_that_holds_our_body_is_written_whatever_the_answer_was(
    replaces: str | None, answers: list[Answer]
) -> None:
    with CannedServer(*answers, HOLDS_OURS) as server:
        assert store(server.url).write(KEY, OURS, replaces=replaces) == '"2"'
    assert methods(server) == [*["PUT"] * len(answers), "GET"]


@pytest.mark.parametrize(("answer", "found"), [(CHANGED, HOLDS_THEIRS), (CHANGED, MISSING), (MISSING, MISSING)])
def test_a_version_that_is_gone_is_told(answer: Answer, found: Answer) -> None:
    with CannedServer(answer, found) as server, pytest.raises(ChangedError, match=f"s3://lake/{KEY}"):
        store(server.url).write(KEY, OURS, replaces='"1"')


@pytest.mark.parametrize("found", [HOLDS_THEIRS, HOLDS_OLD, MISSING])
@pytest.mark.parametrize("answers", [[CONFLICT], [BROKEN, BROKEN, BROKEN]])
def test_a_write_that_did_not_arrive_can_be_tried_again(answers: list[Answer], found: Answer) -> None:
    with CannedServer(*answers, found) as server, pytest.raises(RetryableError, match=f"writing s3://lake/{KEY}"):
        store(server.url).write(KEY, OURS, replaces='"1"')


def test_nobody_knows_what_was_written_while_the_object_cannot_be_read() -> None:
    with CannedServer(CHANGED, BROKEN) as server, pytest.raises(RetryableError, match=f"reading s3://lake/{KEY}"):
        store(server.url).write(KEY, OURS, replaces='"1"')


def test_an_answer_that_is_cut_off_is_found_out_by_reading() -> None:
    with cutting_server(cut=3, then=HOLDS_OURS) as url:
        assert store(url).write(KEY, OURS, replaces='"1"') == '"2"'


def test_a_store_without_conditions_is_read_and_checked_first_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        CannedServer(UNKNOWN, HOLDS_OLD, WRITTEN, HOLDS_OURS, Answer(200, headers={"ETag": '"4"'})) as server,
        caplog.at_level(logging.WARNING, "app"),
    ):
        client = store(server.url)
        assert client.write(KEY, OURS, replaces='"1"') == '"2"'
        assert client.write(KEY, b"next", replaces='"2"') == '"4"'

    assert methods(server) == ["PUT", "GET", "PUT", "GET", "PUT"]
    assert not {"if-match", "if-none-match"} & server.requests[-1].headers.keys()
    (warning,) = caplog.messages
    assert "s3://lake knows no conditional writes" in warning


def test_a_store_that_has_shown_conditions_is_not_written_without_them_whoever_says_that_it_has_none() -> None:
    refused = refusal(412, "PreconditionFailed")
    begun = Answer(200, b"<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>")
    in_parts = (begun, WRITTEN, refused, Answer(204))
    probed = (WRITTEN, WRITTEN, refused, refused, *in_parts, HOLDS_OURS, Answer(204))
    with CannedServer(*probed, UNKNOWN, HOLDS_OLD) as server:
        client = store(server.url)
        client.probe_conditions("t/")
        with pytest.raises(RetryableError, match="not implemented, and they were at the start"):
            client.write(KEY, OURS, replaces='"1"')
    assert methods(server)[len(probed) :] == ["PUT", "GET"]


@pytest.mark.parametrize(("replaces", "found"), [(None, HOLDS_THEIRS), ('"1"', HOLDS_THEIRS), ('"1"', MISSING)])
def test_a_store_without_conditions_still_keeps_what_others_wrote(replaces: str | None, found: Answer) -> None:
    with CannedServer(UNKNOWN, found) as server, pytest.raises(ChangedError):
        store(server.url).write(KEY, OURS, replaces=replaces)
    assert methods(server).count("PUT") == 1


def test_a_lost_answer_is_found_out_without_conditions_too() -> None:
    with CannedServer(UNKNOWN, HOLDS_OLD, BROKEN, BROKEN, BROKEN, HOLDS_OURS) as server:
        assert store(server.url).write(KEY, OURS, replaces='"1"') == '"2"'


@pytest.mark.parametrize(
    ("verb", "action"),
    [
        ("reading", "s3:GetObject"),
        ("downloading", "s3:GetObject"),
        ("writing", "s3:PutObject"),
        ("deleting", "s3:DeleteObject"),
    ],
)
def test_a_missing_right_is_named(tmp_path: Path, verb: str, action: str) -> None:
    with CannedServer(DENIED) as server:
        client = store(server.url)
        calls: dict[str, Callable[[], object]] = {
            "reading": lambda: client.read(KEY),
            "downloading": lambda: client.download(KEY, tmp_path / "copy"),
            "writing": lambda: client.write(KEY, OURS, replaces=None),
            "deleting": lambda: client.delete(KEY),
        }
        with pytest.raises(FatalError, match=f"{verb} s3://lake/{KEY}.*Allow {action} on arn:aws:s3:::lake/"):
            calls[verb]()
        with pytest.raises(FatalError, match=r"reading .*Allow s3:GetObject on arn:aws:s3:::lake/"):
            client.read_range(KEY, 0, 1)


def test_a_page_of_a_proxy_is_not_an_object(tmp_path: Path) -> None:
    with CannedServer(Answer(200, b"<html>busy")) as server:
        client = store(server.url)
        for attempt in (
            lambda: client.read(KEY),
            lambda: client.read_range(KEY, 0, 4),
            lambda: client.download(KEY, tmp_path / "copy"),
        ):
            with pytest.raises(RetryableError, match=r"no ETag.*proxy"):
                attempt()
    assert not (tmp_path / "copy").exists()


def test_a_store_that_says_there_is_nothing_to_delete_has_nothing_left() -> None:
    with CannedServer(MISSING) as server:
        store(server.url).delete(KEY)
    assert methods(server) == ["DELETE"]


def test_an_object_that_breaks_off_can_be_read_again_and_leaves_no_half_copy(tmp_path: Path) -> None:
    half = b'HTTP/1.1 200 OK\r\nETag: "2"\r\nContent-Length: 100\r\n\r\nhalf of it'
    with raw_server(half) as url:
        client = store(url)
        errors: list[ConnectorError] = []
        attempts: list[Callable[[], object]] = [
            lambda: client.read(KEY),
            lambda: client.download(KEY, tmp_path / "copy"),
        ]
        for attempt in attempts:
            with pytest.raises(RetryableError) as caught:
                attempt()
            errors.append(caught.value)
    assert [str(error).partition(":")[0] for error in errors] == ["reading s3", "downloading s3"]
    assert not (tmp_path / "copy").exists()


def test_a_range_is_asked_for_by_its_last_byte() -> None:
    with CannedServer(Answer(206, b"abc", {"ETag": '"2"', "Content-Range": "bytes 5-7/100"})) as server:
        assert store(server.url).read_range(KEY, 5, 3) == b"abc"
    assert server.requests[0].headers["range"] == "bytes=5-7"


def test_what_is_read_comes_with_its_version() -> None:
    with CannedServer(HOLDS_OLD) as server:
        assert store(server.url).read(KEY) == Document(b"old", '"1"')


@contextmanager
def cutting_server(cut: int, then: Answer) -> Iterator[str]:
    """Hangs up without an answer ``cut`` times, then answers."""
    head = "".join(f"{name}: {value}\r\n" for name, value in then.headers.items())
    whole = f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(then.body)}\r\n\r\n".encode() + then.body
    with raw_server(*[b""] * cut, whole) as url:
        yield url


@contextmanager
def raw_server(*answers: bytes) -> Iterator[str]:
    """Says these bytes, one answer per connection and the last one for ever, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            left = list(answers)
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the test is over
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(left.pop(0) if len(left) > 1 else left[0])
                    connection.shutdown(socket.SHUT_WR)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
