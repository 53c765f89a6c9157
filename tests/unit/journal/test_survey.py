"""Objects on their way into a table, or undone, are not of the table: who reads its folders must know them."""

import pytest

from app.errors import FatalError
from app.journal.entry import log_key
from app.journal.journal import survey
from app.journal.log import AssignmentLog, Progress
from tests.support.world import P0, P1, P2, THEIRS, World, file, intent, key_of

ROOT = "data/t"


def test_the_logs_of_all_groups_are_read(world: World) -> None:
    world.begun("f1", [P0, P1]).intend(intent("1", also=["letter"]))
    world.begun("f2", [P2], end=4)
    progress = Progress(topic="sensors", partition=0, end=1, to=2)
    log = AssignmentLog(seq=1, owner="x", writer="x", state="pending", partitions=(progress,), files=(file("3"),))
    world.overwrite(log_key(ROOT, "another", "x"), log.to_body())
    world.overwrite(f"{ROOT}/_journal/schema.json", b"{}")

    found = survey(world.store, ROOT)

    assert found.pending == {key_of(name) for name in ("1", "letter", "3")}
    assert not found.rolled_back
    assert found.left_out == found.pending


def test_what_was_undone_is_rolled_back(world: World) -> None:
    world.begun().intend(intent("never", also=["letter"]))
    world.claimed(THEIRS)
    found = survey(world.store, ROOT)
    assert found.rolled_back == {key_of("never"), key_of("letter")}
    assert not found.pending


def test_a_table_without_journals_has_nothing_unfinished(world: World) -> None:
    found = survey(world.store, ROOT)
    assert not found.pending | found.rolled_back


def test_a_log_that_cannot_be_understood_is_refused(world: World) -> None:
    below = "group/generations.d/aaaaaaaa.json"
    world.overwrite(f"{ROOT}/_journal/{below}", b"{")
    with pytest.raises(FatalError, match=rf"reading the journal .*/{below}: .*update this one"):
        survey(world.store, ROOT)
