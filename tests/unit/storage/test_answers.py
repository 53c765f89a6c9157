"""What the store of each SDK makes of answers that are lost, refused, or of somebody else, over real HTTP."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from logging import WARNING
from pathlib import Path
from threading import Event, Lock
from urllib.parse import unquote

import pytest

from app.errors import ConfigError, FatalError, RetryableError
from app.storage.base import ChangedError, Content
from app.storage.cloud_store import CloudStore
from app.storage.document import Document, Form, UnreadableError
from app.storage.local.store import LocalStore
from dev.server import free_ports
from tests.fakes import azure_answers, google_answers, s3_answers
from tests.fakes.canned_server import Answer, CannedServer
from tests.support.waiting import wait_for, wait_until

KEY = "t/_journal/schema.json"
FILE = "t/f.parquet"
OURS = b"PAR1"
FOREIGN = {"a web page": Answer(200, b"<html>busy</html>", {"Content-Type": "text/html"}), "nothing": Answer(200)}


@dataclass(frozen=True)
class Dialect:
    """How a store says things; ``tries`` is how often its library sends a request, ``first`` names a version."""

    uri: str
    make: Callable[[str], CloudStore]
    tries: int
    first: str
    second: str
    written: Answer
    deleted: Answer
    holds: Callable[[bytes], Answer]
    listing: Callable[..., Answer]
    changed: Answer
    missing: Answer
    broken: Answer
    no_bucket: Answer

    @contextmanager
    def at(self, *answers: Answer) -> Iterator[CloudStore]:
        with CannedServer(*answers) as server:
            yield self.make(server.url)


WAIT = {"Retry-After": "7"}
S3 = Dialect(
    "s3://lake",
    s3_answers.s3_store,
    tries=3,
    first='"1"',
    second='"2"',
    written=s3_answers.written('"2"'),
    deleted=Answer(204),
    holds=lambda body: s3_answers.holds(body, '"2"'),
    listing=s3_answers.listing,
    changed=s3_answers.refusal(412, "PreconditionFailed"),
    missing=s3_answers.refusal(404, "NoSuchKey"),
    broken=s3_answers.refusal(503, "SlowDown", headers=WAIT),
    no_bucket=s3_answers.refusal(404, "NoSuchBucket"),
)
AZURE = Dialect(
    "az://lake",
    azure_answers.azure_store,
    tries=3,
    first='"1"',
    second='"2"',
    written=azure_answers.written('"2"'),
    deleted=Answer(202, headers=azure_answers.SERVED),
    holds=lambda body: azure_answers.holds(body, '"2"'),
    listing=azure_answers.listing,
    changed=azure_answers.refusal(412, "ConditionNotMet"),
    missing=azure_answers.refusal(404, "BlobNotFound"),
    broken=azure_answers.refusal(503, "ServerBusy", headers=WAIT),
    no_bucket=azure_answers.refusal(404, "ContainerNotFound"),
)
GOOGLE = Dialect(
    "gs://lake",
    google_answers.google_store,
    tries=1,
    first="1",
    second="2",
    written=google_answers.written(2),
    deleted=Answer(204),
    holds=lambda body: google_answers.content(body, 2),
    listing=google_answers.listing,
    changed=google_answers.refusal(412, "conditionNotMet", "A pre-condition did not hold."),
    missing=google_answers.text(404, f"No such object: lake/{KEY}"),
    broken=google_answers.refusal(503, "backendError", "Backend Error", WAIT),
    no_bucket=google_answers.refusal(404, "notFound", google_answers.BUCKET_GONE),
)


@pytest.fixture(params=[S3, AZURE, GOOGLE], ids=["s3", "azure", "google"])
def say(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


def in_doubt(say: Dialect) -> list[list[Answer]]:
    """Ends of a request after which nobody knows whether the object was written."""
    again = [say.broken, say.changed] if say.tries > 1 else [say.changed]  # the second try hears of the first one's
    return [[say.changed], again, [say.broken] * say.tries, [FOREIGN["nothing"]]]


def others(say: Dialect) -> list[Answer]:
    return [say.holds(b"their rows"), say.holds(OURS + b" and theirs"), say.holds(OURS[:3]), say.missing]


class TestConditionalWrites:
    def test_what_was_written_can_be_read_by_its_version(self, say: Dialect) -> None:
        with say.at(say.written, say.holds(OURS)) as store:
            assert store.write(KEY, OURS, replaces=say.first) == say.second
            assert store.read(KEY) == Content(OURS, say.second)

    @pytest.mark.parametrize("is_new", [False, True])
    def test_an_object_that_holds_our_body_is_written_whatever_the_answer_was(self, say: Dialect, is_new: bool) -> None:
        for answers in in_doubt(say):
            with say.at(*answers, say.holds(OURS)) as store:
                assert store.write(KEY, OURS, replaces=None if is_new else say.first) == say.second

    def test_an_object_beyond_all_size_is_not_read(self, say: Dialect) -> None:
        with say.at(say.holds(b" " * (33 << 20))) as store, pytest.raises(UnreadableError) as caught:
            store.read(KEY)
        assert f"{KEY}: it has more than 33,554,432 bytes. Find out who wrote the object" in str(caught.value)

    def test_a_version_that_is_gone_is_told(self, say: Dialect) -> None:
        for found in others(say):
            with say.at(say.changed, found) as store, pytest.raises(ChangedError, match=f"{say.uri}/{KEY}"):
                store.write(KEY, OURS, replaces=say.first)

    def test_a_write_that_did_not_arrive_can_be_tried_again(self, say: Dialect) -> None:
        for found in others(say):
            with (
                say.at(*[say.broken] * say.tries, found) as store,
                pytest.raises(RetryableError, match=f"writing {say.uri}/{KEY}"),
            ):
                store.write(KEY, OURS, replaces=say.first)

    def test_nobody_knows_what_was_written_while_the_object_cannot_be_read(self, say: Dialect) -> None:
        with say.at(say.changed, say.broken) as store, pytest.raises(RetryableError, match=f"reading {say.uri}/{KEY}"):
            store.write(KEY, OURS, replaces=say.first)


_THREADS, _CONNECTIONS = 30, 4  # with ``max_workers=2``


def test_many_threads_share_the_connections_that_are_kept(say: Dialect, caplog: pytest.LogCaptureFixture) -> None:
    """As where the tables of a hundred topics begin at the same time: none is opened for one request."""
    lock, gate, begun, inside, most = Lock(), Event(), set[int](), 0, 0

    def wait_at_gate() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        wait_for(gate, "all threads to begin")
        with lock:
            inside -= 1

    def read(number: int) -> Content | None:
        begun.add(number)
        return store.read(KEY)

    with CannedServer(say.holds(OURS), before=wait_at_gate) as server, ThreadPoolExecutor(_THREADS) as threads:
        store = say.make(server.url)
        found = [threads.submit(read, number) for number in range(_THREADS)]
        wait_until(lambda: len(begun) == _THREADS and most >= _CONNECTIONS, "all threads to begin")
        gate.set()
        assert [content.body for each in found if (content := each.result())] == [OURS] * _THREADS
    assert most == _CONNECTIONS
    assert not [each for each in caplog.records if each.levelno >= WARNING]


class TestFiles:
    def test_an_upload_that_finds_its_own_bytes_is_done(self, say: Dialect, file: Path) -> None:
        with say.at(say.changed, say.holds(OURS)) as store:
            assert store.upload(file, FILE).size == len(OURS)

    def test_an_upload_that_finds_another_object_is_refused(self, say: Dialect, file: Path) -> None:
        for found in others(say):
            with say.at(say.changed, found) as store, pytest.raises(ChangedError, match=f"{say.uri}/{FILE}"):
                store.upload(file, FILE)

    def test_a_failure_that_passes_at_once_is_not_seen(self, say: Dialect, file: Path) -> None:
        with CannedServer(*[say.broken] * (say.tries - 1), say.written) as server:
            assert say.make(server.url).upload(file, FILE).size == len(OURS)
        assert [OURS in request.body for request in server.requests] == [True] * say.tries

    def test_after_some_tries_it_is_the_pipelines_turn_with_the_wait_that_was_asked_for(
        self, say: Dialect, file: Path
    ) -> None:
        with CannedServer(say.broken) as server, pytest.raises(RetryableError) as caught:
            say.make(server.url).upload(file, FILE)
        assert (len(server.requests), caught.value.retry_after) == (say.tries, 7.0)

    def test_the_object_is_copied_and_deleted(self, say: Dialect, tmp_path: Path) -> None:
        with CannedServer(say.holds(OURS), say.deleted) as server:
            store = say.make(server.url)
            assert store.download(FILE, tmp_path / "copy") == say.second
            store.delete(FILE)
        assert (tmp_path / "copy").read_bytes() == OURS
        assert server.methods == ["GET", "DELETE"]
        assert {unquote(request.path.partition("?")[0]).endswith(FILE) for request in server.requests} == {True}


class TestWhatIsNotThere:
    def test_an_object_that_is_missing_is_no_bucket_that_is_gone(self, say: Dialect) -> None:
        with say.at(say.missing) as store:
            assert store.read(KEY) is None
            store.delete(KEY)

    @pytest.mark.parametrize("verb", ["reading", "writing", "deleting", "uploading", "downloading", "listing"])
    def test_a_bucket_that_is_gone_is_fatal(self, say: Dialect, verb: str, file: Path, tmp_path: Path) -> None:
        with say.at(say.no_bucket) as store:
            calls: dict[str, Callable[[], object]] = {
                "reading": lambda: store.read(KEY),
                "writing": lambda: store.write(KEY, OURS, replaces=None),
                "deleting": lambda: store.delete(KEY),
                "uploading": lambda: store.upload(file, KEY),
                "downloading": lambda: store.download(KEY, tmp_path / "copy"),
                "listing": lambda: list(store.list(KEY)),
            }
            with pytest.raises(FatalError, match=f"{verb} {say.uri}/{KEY}.*STORAGE_URL.*restart"):
                calls[verb]()

    def test_a_bucket_that_is_missing_at_the_start_is_a_mistake_in_the_settings(self, say: Dialect) -> None:
        with say.at(say.no_bucket) as store, pytest.raises(ConfigError, match=f"connecting to {say.uri}.*STORAGE_URL"):
            store.connect("")


def test_a_server_that_is_not_there_is_retryable_and_named(say: Dialect) -> None:
    [port] = free_ports(1)
    hint = "AWS_ENDPOINT_URL|AZURE_STORAGE_ACCOUNT|network"
    with pytest.raises(RetryableError, match=f"reading {say.uri}/{KEY}.*refused.*({hint})"):
        say.make(f"http://127.0.0.1:{port}").read(KEY)


@pytest.mark.parametrize("page", FOREIGN.values(), ids=FOREIGN)
class TestAnswersOfSomebodyElse:
    def test_they_are_no_store(self, say: Dialect, page: Answer) -> None:
        with say.at(page) as store, pytest.raises(ConfigError, match=f"connecting to {say.uri}.*proxy"):
            store.connect("")

    def test_they_are_no_object_and_no_folder(self, say: Dialect, page: Answer, file: Path, tmp_path: Path) -> None:
        with say.at(page) as store:
            for attempt in (
                lambda: store.read(KEY),
                lambda: store.read_range(KEY, 0, 4),
                lambda: store.download(KEY, tmp_path / "copy"),
                lambda: store.upload(file, KEY),
                lambda: list(store.list("t/")),
            ):
                with pytest.raises(RetryableError, match="proxy"):
                    attempt()
        assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("page", FOREIGN.values(), ids=FOREIGN)
def test_they_are_no_end_of_a_listing(say: Dialect, page: Answer) -> None:
    with say.at(say.listing("t/a", after="more"), page) as store, pytest.raises(RetryableError, match="proxy"):
        list(store.list("t/"))


def test_a_listing_goes_on_over_all_pages(say: Dialect) -> None:
    with CannedServer(say.listing("t/a", "t/b", after="more"), say.listing("t/c")) as server:
        assert [found.key for found in say.make(server.url).list("t/")] == ["t/a", "t/b", "t/c"]

    assert "prefix=t%2F" in server.requests[0].path
    assert "=more" in server.requests[1].path


def test_only_the_place_that_will_be_written_is_listed(say: Dialect) -> None:
    """Keys that a platform hands out may list their own workspace's folder and nothing above it."""
    with CannedServer(say.listing()) as server:
        say.make(server.url).connect("ws-1/data/t/")

    (request,) = server.requests
    assert "prefix=ws-1%2Fdata%2Ft%2F" in request.path
    assert any(f"{name}=1" in request.path for name in ("max-keys", "maxResults", "maxresults"))


def test_a_range_is_asked_for_by_its_last_byte(say: Dialect) -> None:
    part = say.holds(b"abc")
    with CannedServer(Answer(206, b"abc", {**part.headers, "Content-Range": "bytes 5-7/100"})) as server:
        assert say.make(server.url).read_range(KEY, 5, 3) == b"abc"
    headers = server.requests[0].headers
    assert headers.get("x-ms-range", headers.get("range")) == "bytes=5-7"


def test_a_file_beyond_all_size_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(b" " * (33 << 20))
    with pytest.raises(UnreadableError, match=r"large.json: it has more than 33,554,432 bytes"):
        LocalStore(tmp_path).read("large.json")


def test_a_document_whose_values_would_fill_the_memory_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "rich.json").write_bytes(b"[" + b"{}," * 1_000_000 + b"0]")
    form = Form("the test", json.loads, lambda _: b"", "Restore it")
    with pytest.raises(UnreadableError, match=r"rich.json: it contains more than 1,000,000 values. Restore it"):
        Document(LocalStore(tmp_path), "rich.json", form).read()
