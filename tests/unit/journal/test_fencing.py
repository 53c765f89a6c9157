"""A generation whose log somebody else has closed, deleted or overwritten: it stops, and harms nothing."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.journal.document import FencedError, LogClosedError
from app.journal.generation import Generation
from app.model import TopicPartition
from tests.unit.journal.journal_bench import OURS, P0, P1, THEIRS, THIRD, Bench, begin_at, intent, key_of

Step = Callable[[Generation], None]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.check_versions()


def intend(owner: Generation) -> None:
    owner.intend(intent("2", batch=1, end=19))


def advance(owner: Generation) -> None:
    owner.advance({P0: 99, P1: 99})


def take_over(owner: Generation) -> None:
    progress = begin_at(P0, 50).progress
    assert progress is not None
    owner.take_over([progress], ())


def done(owner: Generation) -> None:
    owner.done(0)


STEPS_BETWEEN_BATCHES = [intend, advance, take_over, Generation.verify_ownership]
STEPS_OF_A_BATCH = [intend, Generation.verify_ownership, done]


@pytest.mark.parametrize("step", STEPS_BETWEEN_BATCHES)
@pytest.mark.parametrize("taken", [[P0, P1], [P0], [P1]])
def test_between_batches_the_former_owner_is_fenced_with_all_of_its_partitions(
    bench: Bench, step: Step, taken: list[TopicPartition]
) -> None:
    former = bench.begun(tps=[P0, P1])
    bench.claimed(tps=taken)
    before = bench.documents()
    for _ in range(2):
        with pytest.raises(FencedError, match="was closed by another member of the consumer group"):
            step(former)
    assert bench.documents() == before


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_in_a_batch_the_former_owner_is_fenced(bench: Bench, step: Step) -> None:
    former = bench.begun()
    former.intend(intent("1"))
    bench.store_files("1")
    bench.claimed()
    before = bench.documents()
    for _ in range(2):
        with pytest.raises(FencedError, match="was closed by another member"):
            step(former)
    assert bench.documents() == before
    assert bench.has("1"), "its new owner keeps it"


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_it_is_fenced_before_its_batch_is_decided_on_and_deletes_nothing(bench: Bench, step: Step) -> None:
    former = bench.begun()
    former.intend(intent("1"))
    bench.store_files("1")
    bench.catalog_errors = [RetryableError("registering files", "503")]
    with pytest.raises(RetryableError):
        bench.claimed()
    for _ in range(2):
        with pytest.raises(FencedError):
            step(former)
    assert bench.log().state == "kept"
    assert bench.has("1")


def test_a_claim_that_comes_late_fences_the_one_before_and_not_itself(bench: Bench) -> None:
    bench.begun()
    first, second = bench.claimed(THEIRS), bench.claimed(THIRD)
    second.verify_ownership()
    with pytest.raises(FencedError):
        first.verify_ownership()


def test_of_many_that_claim_at_once_one_has_it_in_the_end(bench: Bench) -> None:
    bench.begun(end=9)
    generations = [bench.generation(f"{number:08x}") for number in range(8)]
    through: list[Generation] = []

    def claim(generation: Generation) -> None:
        with contextlib.suppress(FencedError):
            bench.claim(generation)
            through.append(generation)

    with ThreadPoolExecutor(len(generations)) as pool:
        list(pool.map(claim, generations))
    (owner,) = [generation for generation in through if is_open(generation)]
    assert bench.stored_claim().owner == owner.token
    assert bench.end(owner.token) == 9


def is_open(generation: Generation) -> bool:
    try:
        generation.verify_ownership()
    except FencedError:
        return False
    return True


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_the_fenced_one_leaves_the_placeholders_to_the_new_owner(bench: Bench, step: Step) -> None:
    """Another one of its own uploads may still be in the network."""
    owner = bench.begun(OURS)
    owner.intend(intent("1", "2", batch=0))
    bench.claimed(THEIRS)
    with pytest.raises(FencedError):
        step(owner)
    owner.abandon()
    assert bench.store.deleted == []
    bench.upload_late("1", "2")
    assert not bench.has("1")
    assert not bench.has("2")


def test_one_that_has_looked_for_late_uploads_is_fenced_all_the_same(bench: Bench) -> None:
    """It may not have asked for its log before."""
    owner = bench.begun(OURS)
    owner.intend(intent("1", "2", batch=0))
    bench.claimed(THEIRS)
    before = bench.documents()
    owner.abandon()
    with pytest.raises(FencedError):
        owner.done(0)
    with pytest.raises(FencedError):
        owner.advance({P0: 99})
    assert bench.documents() == before


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
@pytest.mark.parametrize("reason", ["no conditional writes", "an hour later"])
def test_where_no_placeholder_refuses_the_fenced_one_deletes_its_own_late_uploads(
    bench: Bench, step: Step, reason: str
) -> None:
    """As after a machine slept for hours amid an upload, which the library has then repeated."""
    bench.store.refuses_overwrites = reason == "an hour later"
    bench.begun(OURS).intend(intent("old"))
    owner = bench.claimed(THEIRS)  # rolls "old" back
    owner.intend(intent("1", "2", batch=0, also=["letter"]))
    bench.store_files("1")
    heir = bench.claimed(THIRD)  # rolls "1", "2" and "letter" back
    if bench.store.refuses_overwrites:
        bench.epoch.advance(3600)
        heir.sweep()
    bench.store.deleted.clear()
    with pytest.raises(FencedError):
        step(owner)
    bench.store_files("1", "letter", "old", "other")  # uploads that land late
    owner.abandon()
    assert sorted(bench.store.deleted) == [key_of("1"), key_of("2"), key_of("letter")]
    assert not bench.has("1")
    assert not bench.has("letter")
    assert bench.has("old")
    assert bench.has("other")


def test_files_that_the_new_owner_keeps_are_left_alone_by_the_fenced_one(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    bench.store_files("1")
    other = bench.claimed()
    other.intend(intent("2", batch=0, end=19))
    bench.claimed(THIRD)
    with pytest.raises(FencedError):
        owner.done(0)
    assert bench.rolled_back(THIRD) == [key_of("2")]
    assert bench.has("1")


# --- not by an owner ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_a_table_that_was_deleted_is_not_written_any_more(bench: Bench, step: Step) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    bench.delete(bench.log_key())
    for _ in range(2):
        with pytest.raises(FencedError, match=f"{bench.log_key()} is gone: the table was deleted"):
            step(owner)
    assert not bench.logs()


@pytest.mark.parametrize("body", [b"", b"junk", b'{"version": 2}', b"[1]"])
@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_a_log_overwritten_by_something_else_is_left_as_it_is(bench: Bench, step: Step, body: bytes) -> None:
    """A newer release closes the log of an older one in this way, as an update goes through the group."""
    owner = bench.begun()
    owner.intend(intent("1"))
    bench.store_files("1")
    bench.overwrite(bench.log_key(), body)
    for _ in range(2):
        with pytest.raises(FencedError, match=f"{bench.log_key()} was overwritten by something else: "):
            step(owner)
    assert (bench.lake / bench.log_key()).read_bytes() == body
    assert bench.has("1")


def test_a_backup_brought_back_is_not_taken_for_the_own_log(bench: Bench) -> None:
    owner = bench.begun()
    backup = bench.log()
    owner.intend(intent("1"))
    bench.overwrite(bench.log_key(), backup.to_body())
    with pytest.raises(FencedError):
        owner.verify_ownership()
    with pytest.raises(FencedError):
        owner.done(0)
    assert bench.log() == backup


@pytest.mark.parametrize("left", ["closed", "gone", "overwritten", "backup"])
def test_only_a_closed_log_lets_the_partitions_be_claimed_again(bench: Bench, left: str) -> None:
    owner = bench.begun()
    backup = bench.log()
    owner.intend(intent("1"))
    if left == "closed":
        bench.claimed()
    elif left == "gone":
        bench.delete(bench.log_key())
    else:
        bench.overwrite(bench.log_key(), b"junk" if left == "overwritten" else backup.to_body())
    with pytest.raises(FencedError) as raised:
        owner.verify_ownership()
    assert isinstance(raised.value, LogClosedError) == (left == "closed")
