"""A generation whose log somebody else has closed, deleted or overwritten: it stops, and harms nothing."""

from collections.abc import Callable

import pytest

from app.journal.journal import FencedError, LogClosedError
from app.journal.own_log import OwnLog
from tests.support.world import OURS, P0, THEIRS, THIRD, World, intent, key_of

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
def test_the_fenced_one_leaves_the_placeholders_to_the_new_owner(world: World, step: Step) -> None:
    """Another one of its own uploads may still be in the network."""
    owner = world.begun(OURS)
    owner.intend(intent("1", "2"))
    world.claimed(THEIRS)
    before = world.documents()
    owner.delete_late_uploads()  # it may not have asked for its log before
    with pytest.raises(FencedError):
        step(owner)
    owner.delete_late_uploads()
    assert (world.store.deleted, world.documents()) == ([], before)
    world.upload_late("1", "2")
    assert not world.has("1")
    assert not world.has("2")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("reason", ["no conditional writes", "an hour later"])
def test_where_no_placeholder_refuses_the_fenced_one_deletes_its_own_late_uploads(
    world: World, step: Step, reason: str
) -> None:
    """As after a machine slept for hours amid an upload, which the library has then repeated."""
    world.store.refuses_overwrites = reason == "an hour later"
    world.begun(OURS).intend(intent("old"))
    owner = world.claimed(THEIRS)  # rolls "old" back
    owner.intend(intent("1", "2", also=["letter"]))
    world.store_files("1")
    heir = world.claimed(THIRD)  # rolls "1", "2" and "letter" back
    if world.store.refuses_overwrites:
        world.epoch.advance(3600)
        heir.sweep()
    world.store.deleted.clear()
    with pytest.raises(FencedError):
        step(owner)
    world.store_files("1", "letter", "old", "other")  # uploads that land late
    owner.delete_late_uploads()
    assert sorted(world.store.deleted) == [key_of("1"), key_of("2"), key_of("letter")]
    assert not world.has("1")
    assert not world.has("letter")
    assert world.has("old")
    assert world.has("other")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("left", ["closed", "gone", "junk", "newer release", "backup"])
def test_an_owner_whose_log_is_not_its_own_any_more_harms_nothing(world: World, step: Step, left: str) -> None:
    """A newer release may overwrite the log. Only a closed one lets the partitions be claimed again."""
    owner = world.begun()
    backup = world.log().to_body()
    owner.intend(intent("1"))
    world.store_files("1")
    if left == "closed":
        world.claimed()
    elif left == "gone":
        world.delete(world.log_key())
    else:
        world.overwrite(world.log_key(), {"junk": b"junk", "newer release": b'{"version": 2}', "backup": backup}[left])
    before = world.documents()
    for each in (step, *STEPS):
        with pytest.raises(FencedError) as raised:
            each(owner)
        assert isinstance(raised.value, LogClosedError) == (left == "closed")
    assert world.fenced == [OURS], "it is told once"
    assert world.documents() == before
    assert world.has("1")


@pytest.mark.parametrize("step", STEPS)
def test_once_the_assignment_has_ended_nothing_is_asked_or_written(world: World, step: Step) -> None:
    owner = world.begun()
    owner.intend(intent("1"))
    owner.end()
    asked: list[str] = []
    world.store.on_small = lambda what, _: asked.append(what)
    with pytest.raises(FencedError):
        step(owner)
    assert (asked, world.fenced) == ([], [])
