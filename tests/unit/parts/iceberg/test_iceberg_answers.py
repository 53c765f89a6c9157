"""What odd answers of an Iceberg catalog do: a commit that may have happened, a login that expired, a view, a bomb."""

import gc
import gzip
import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from app.errors import ConfigError, FatalError, RetryableError
from app.parts.http.rest_client import Patience
from app.parts.iceberg.table import IcebergTable
from tests.fakes.canned_server import Answer, Request
from tests.fakes.iceberg_rest import TABLE, IcebergRest, Odd, refusal
from tests.unit.parts.iceberg.iceberg_bench import ROOT, WANTED, IcebergBench, marks

PAGE = Answer(body=b"<html>Be patient</html>", headers={"Content-Type": "text/html"})
LOST = refusal(400, "BadRequestException", "Cannot add snapshot with sequence number 5 older than last one 6")


@pytest.fixture
def bench(tmp_path: Path) -> IcebergBench:
    bench = IcebergBench(tmp_path)
    bench.member()
    return bench


@pytest.fixture
def server(bench: IcebergBench) -> Iterator[IcebergRest]:
    with IcebergRest(bench) as server:
        yield server


def member_of(server: IcebergRest, folder: Path, **login: str) -> IcebergTable:
    return IcebergBench(folder, {"type": "rest", "uri": server.url, **login}).member()


def add(bench: IcebergBench, member: IcebergTable, number: int) -> None:
    member.add_files([bench.file(str(number), {"n": [number]})], "readings", marks(number))


def first(answers: Sequence[Answer], *, is_done: bool = False) -> Odd:
    """Gives these answers to a commit and what is asked next of the table."""
    left = [*answers]

    def odd(request: Request, good: Callable[[], Answer]) -> Answer:
        begins = len(left) == len(answers)
        if request.path != TABLE or not left or (begins and request.method == "GET"):
            return good()
        if is_done and begins:
            good()
        return left.pop(0)

    return odd


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize(
    "answers",
    [[LOST], [PAGE], [Answer(400, PAGE.body)], [Answer()], [PAGE, PAGE], [LOST, PAGE]],
    ids=["400", "page", "400 with a page", "nothing", "pages to all", "a page after 400"],
)
def test_a_commit_with_an_unclear_answer_is_neither_lost_nor_doubled(
    bench: IcebergBench, server: IcebergRest, tmp_path: Path, answers: Sequence[Answer], is_done: bool
) -> None:
    member = member_of(server, tmp_path)
    server.odd = first(answers, is_done=is_done)
    add(bench, member, 1)
    add(bench, member, 2)
    assert bench.numbers() == [1, 2]


@pytest.mark.parametrize("answer", [LOST, PAGE], ids=["400", "page"])
@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_a_catalog_that_goes_on_so_ends_the_process_and_the_next_one_goes_on(
    bench: IcebergBench, server: IcebergRest, tmp_path: Path, answer: Answer, is_done: bool
) -> None:
    member = member_of(server, tmp_path)

    def odd(request: Request, good: Callable[[], Answer]) -> Answer:
        if request.path == TABLE and server.commits:
            if is_done and request.method == "POST" and server.commits == 1:
                good()
            return good() if request.method == "GET" and not is_done else answer
        return good()

    server.odd = odd
    with pytest.raises(FatalError, match="committing files") as caught:
        add(bench, member, 1)
    assert caught.value.exit_code == 75
    add(bench, bench.member(), 1)
    assert bench.numbers() == [1]


def test_a_commit_of_another_to_a_branch_is_no_refusal(bench: IcebergBench) -> None:
    """It counts up the table's sequence numbers, and leaves the newest snapshot of the main branch."""
    member = bench.member()
    add(bench, member, 1)
    other = bench.table
    snapshot = other.current_snapshot()
    assert snapshot is not None
    other.manage_snapshots().create_branch(snapshot.snapshot_id, "theirs").commit()
    other = bench.table
    other.append(bench.table.scan().to_arrow(), branch="theirs")
    add(bench, member, 2)
    assert bench.numbers() == [1, 2]


def test_a_table_of_version_3_is_named_at_once(bench: IcebergBench, server: IcebergRest, tmp_path: Path) -> None:
    member = member_of(server, tmp_path)
    add(bench, member, 1)
    metadata = Path(bench.table.metadata_location.removeprefix("file://"))
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"format-version": 3, "next-row-id": 1}))
    server.odd = first([refusal(400, "ValidationException", "Cannot add a snapshot: first-row-id is null")])
    with pytest.raises(ConfigError, match=r"it has format version 3, .* set TABLE_NAME to begin another table"):
        add(bench, member, 2)
    assert server.commits == 2


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_has_expired_is_renewed_or_named(
    bench: IcebergBench, server: IcebergRest, tmp_path: Path, status: int
) -> None:
    renews = member_of(server, tmp_path, credential="me:secret-of-mine")
    server.odd = first([refusal(status, "AuthExpired", "expired")])
    add(bench, renews, 1)
    cannot = member_of(server, tmp_path, token="given-for-an-hour")
    server.odd = lambda request, good: refusal(status, "AuthExpired", "expired") if request.path == TABLE else good()
    with pytest.raises(FatalError, match="Check CATALOG_AUTH_TOKEN"):
        add(bench, cannot, 2)
    assert bench.numbers() == [1]


@pytest.mark.parametrize(
    "answer", [LOST, PAGE, refusal(409, "AlreadyExistsException", "there")], ids=["400", "page", "409"]
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_that_is_made_at_the_same_time(
    server: IcebergRest, bench: IcebergBench, tmp_path: Path, answer: Answer, is_there: bool
) -> None:
    hidden = refusal(404, "NoSuchTableException", "no such table")
    server.odd = lambda request, good: good() if "config" in request.path else hidden
    member = IcebergBench(tmp_path, {"type": "rest", "uri": server.url}).new_member()
    assert member.check() is None

    def odd(request: Request, good: Callable[[], Answer]) -> Answer:
        if request.path == TABLE:
            return good() if is_there else hidden
        return answer if request.path.endswith("/tables") else refusal(409, "AlreadyExistsException", "there")

    server.odd = odd
    if is_there:
        assert member.create_table(f"{bench.store.uri}/{ROOT}", WANTED).partition_spec == ("place",)
    else:
        kind, match = (RetryableError, "If a view has this name") if answer.status == 409 else (FatalError, "the same")
        with pytest.raises(kind, match=rf"(?i){match}"):
            member.create_table(f"{bench.store.uri}/{ROOT}", WANTED)


def test_an_answer_beyond_all_size_is_not_kept(bench: IcebergBench, server: IcebergRest, tmp_path: Path) -> None:
    member = member_of(server, tmp_path)
    large = Answer(body=gzip.compress(b" " * (33 << 20)), headers={"Content-Encoding": "gzip"})
    server.odd = lambda request, good: large if request.path == TABLE else good()
    with pytest.raises(FatalError, match="more than 32 MiB"):
        member.check()
    rich = Answer(body=b"[" + b"{}," * 1_000_000 + b"0]")
    server.odd = lambda request, good: rich if request.path == TABLE else good()
    with pytest.raises(FatalError, match=r"more than 1,000,000 values.* CATALOG_URL"):
        member.check()


@pytest.mark.parametrize("silent", [b"", b"[" * (8 << 20)], ids=["no answer", "half an answer"])
def test_a_try_that_is_given_up_ends_and_keeps_nothing(
    bench: IcebergBench, server: IcebergRest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: bytes
) -> None:
    monkeypatch.setattr("app.parts.iceberg.restricted_catalog._PATIENCE", Patience(connect=5, read=1, whole=60))
    member = member_of(server, tmp_path)
    monkeypatch.setattr("app.parts.iceberg.table.DEADLINE_SECONDS", 0.1)
    held = Event()

    def hang(request: Request, _: Callable[[], Answer]) -> Answer:
        if not silent:
            held.wait()
        return Answer(body=silent, headers={"Content-Length": str(60 << 20)})

    server.odd = hang
    gc.collect()
    tracemalloc.start()
    for _ in range(3):
        with pytest.raises(RetryableError, match="no answer in time"):
            member.check()
    tries = [thread for thread in threading.enumerate() if thread.name == "iceberg"]
    for thread in tries:
        thread.join(30)
    assert not [thread for thread in tries if thread.is_alive()]
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    held.set()
    assert kept < 4 << 20, "of 24 MB that were read"


def test_an_answer_that_comes_byte_by_byte_has_an_end(
    bench: IcebergBench, server: IcebergRest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = member_of(server, tmp_path)
    monkeypatch.setattr("app.parts.iceberg.restricted_catalog._PATIENCE", Patience(connect=60, read=60, whole=0))
    with pytest.raises(RetryableError):
        member.check()
