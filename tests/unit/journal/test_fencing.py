"""A generation whose log somebody else has closed, deleted or overwritten: it stops, and harms nothing."""

from collections.abc import Callable

import pytest

from app.journal.journal import FencedError, LogClosedError
from app.journal.own_log import OwnLog
from tests.unit.journal.journal_bench import OURS, P0, THEIRS, THIRD, Bench, intent, key_of

Step = Callable[[OwnLog], None]


def intend(owner: OwnLog) -> None:
    owner.intend(intent("2", batch=2, end=19))


def done(owner: OwnLog) -> None:
    owner.registered()
    owner.done()


def advance(owner: OwnLog) -> None:
    owner.registered()
    owner.advance({P0: 99})


STEPS: list[Step] = [intend, OwnLog.verify, done, advance]


@pytest.mark.parametrize("step", STEPS)
def test_the_fenced_one_leaves_the_placeholders_to_the_new_owner(bench: Bench, step: Step) -> None:
    """Another one of its own uploads may still be in the network."""
    owner = bench.begun(OURS)
    owner.intend(intent("1", "2"))
    bench.claimed(THEIRS)
    before = bench.documents()
    owner.delete_late_uploads()  # it may not have asked for its log before
    with pytest.raises(FencedError):
        step(owner)
    owner.delete_late_uploads()
    assert (bench.store.deleted, bench.documents()) == ([], before)
    bench.upload_late("1", "2")
    assert not bench.has("1")
    assert not bench.has("2")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("reason", ["no conditional writes", "an hour later"])
def test_where_no_placeholder_refuses_the_fenced_one_deletes_its_own_late_uploads(
    bench: Bench, step: Step, reason: str
) -> None:
    """As after a machine slept for hours amid an upload, which the library has then repeated."""
    bench.store.refuses_overwrites = reason == "an hour later"
    bench.begun(OURS).intend(intent("old"))
    owner = bench.claimed(THEIRS)  # rolls "old" back
    owner.intend(intent("1", "2", also=["letter"]))
    bench.store_files("1")
    heir = bench.claimed(THIRD)  # rolls "1", "2" and "letter" back
    if bench.store.refuses_overwrites:
        bench.epoch.advance(3600)
        heir.sweep()
    bench.store.deleted.clear()
    with pytest.raises(FencedError):
        step(owner)
    bench.store_files("1", "letter", "old", "other")  # uploads that land late
    owner.delete_late_uploads()
    assert sorted(bench.store.deleted) == [key_of("1"), key_of("2"), key_of("letter")]
    assert not bench.has("1")
    assert not bench.has("letter")
    assert bench.has("old")
    assert bench.has("other")


@pytest.mark.parametrize("step", STEPS)
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
    for each in (step, *STEPS):
        with pytest.raises(FencedError) as raised:
            each(owner)
        assert isinstance(raised.value, LogClosedError) == (left == "closed")
    assert bench.fenced == [OURS], "it is told once"
    assert bench.documents() == before
    assert bench.has("1")


@pytest.mark.parametrize("step", STEPS)
def test_once_the_assignment_has_ended_nothing_is_asked_or_written(bench: Bench, step: Step) -> None:
    owner = bench.begun()
    owner.intend(intent("1"))
    owner.end()
    asked: list[str] = []
    bench.store.on_small = lambda what, _: asked.append(what)
    with pytest.raises(FencedError):
        step(owner)
    assert (asked, bench.fenced) == ([], [])
