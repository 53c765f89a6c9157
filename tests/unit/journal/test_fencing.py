"""A generation whose log somebody else has closed, deleted or overwritten: it stops, and harms nothing."""

from collections.abc import Callable

import pytest
from app.journal.generation import Generation

from app.journal.journal import FencedError, LogClosedError
from tests.unit.journal.journal_bench import OURS, P0, THEIRS, THIRD, Bench, intent, key_of

Step = Callable[[Generation], None]


def intend(owner: Generation) -> None:
    owner.intend(intent("2", batch=1, end=19))


def done(owner: Generation) -> None:
    owner.done(0)


STEPS_OF_A_BATCH = [intend, Generation.verify_ownership, done]


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
def test_the_fenced_one_leaves_the_placeholders_to_the_new_owner(bench: Bench, step: Step) -> None:
    """Another one of its own uploads may still be in the network."""
    owner = bench.begun(OURS)
    owner.intend(intent("1", "2", batch=0))
    bench.claimed(THEIRS)
    before = bench.documents()
    owner.abandon()  # it may not have asked for its log before
    for each in (step, lambda owner: owner.advance({P0: 99})):
        with pytest.raises(FencedError):
            each(owner)
    owner.abandon()
    assert (bench.store.deleted, bench.documents()) == ([], before)
    bench.upload_late("1", "2")
    assert not bench.has("1")
    assert not bench.has("2")


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


@pytest.mark.parametrize("step", STEPS_OF_A_BATCH)
@pytest.mark.parametrize("left", ["closed", "gone", "junk", "newer release", "backup"])
def test_an_owner_whose_log_is_not_its_own_any_more_harms_nothing(bench: Bench, step: Step, left: str) -> None:
    """A newer release may overwrite the log. Only a closed one lets the partitions be claimed again."""
    owner = bench.begun()
    backup = bench.log().to_body()
    owner.intend(intent("1"))
    bench.store_files("1")
    if left == "closed":
        bench.claimed()
    elif left == "gone":
        bench.delete(bench.log_key())
    else:
        bench.overwrite(bench.log_key(), {"junk": b"junk", "newer release": b'{"version": 2}', "backup": backup}[left])
    before = bench.documents()
    for _ in range(2):
        with pytest.raises(FencedError) as raised:
            step(owner)
        assert isinstance(raised.value, LogClosedError) == (left == "closed")
    assert bench.documents() == before
    assert bench.has("1")
