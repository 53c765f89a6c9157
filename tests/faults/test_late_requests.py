"""Members that stand still with a request on its way, while others take their partitions over; then it arrives."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import RetryableError
from app.storage.base import ObjectStore
from tests.faults.members import LAST, PLACES, FencedOff, Member, Table, recover, wait_until
from tests.faults.proxy import Hold, Rule, nth, on
from tests.faults.site import Site
from tests.faults.steps import DATA, STEPS, leave_behind, live, proxy_of

AWAY = 60.0  # seconds; no time-out of the one that stands still ends its request


@pytest.fixture(scope="module")
def patient(shared_site: Site) -> ObjectStore:
    """A store with time-outs as in production."""
    return shared_site.new_store()


def is_fenced(error: BaseException | None) -> bool:
    return isinstance(error, FencedOff) or (
        isinstance(error, RetryableError) and "was closed by another member" in error.cause
    )


@pytest.mark.parametrize("place", ["last", pytest.param("first", marks=pytest.mark.night)])
@pytest.mark.parametrize("name", STEPS)
def test_a_request_arrives_after_another_member_has_written_everything(
    table: Table, tmp_path: Path, patient: ObjectStore, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    monkeypatch.setattr("tests.faults.members.CATALOG_TIMEOUT", AWAY)
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    held = Rule(step.matches, Hold(), nth(1 if place == "first" else step.calls))
    with ThreadPoolExecutor(1) as other_machine:
        former = other_machine.submit(live, table, tmp_path, step, held, store=patient)
        wait_until(lambda: held.met)
        with Member(table, tmp_path) as member:
            member.live()
        proxy_of(table, step).release()
        error = former.exception()
    if step.phase == "write":
        assert is_fenced(error), f"{error!r}"
    else:  # a late claim may also take everything back, without harm: then nothing is left to write
        assert error is None or is_fenced(error), f"{error!r}"
    table.assert_whole()
    assert recover(table, tmp_path) == {LAST + 1}


def test_an_upload_that_arrives_after_its_member_has_died_is_refused(
    table: Table, tmp_path: Path, patient: ObjectStore
) -> None:
    held = table.site.to_store.add(Rule(on("PUT", DATA), Hold(), nth(len(PLACES))))
    with Member(table, tmp_path, store=patient) as former:
        former.claim()
        with ThreadPoolExecutor(1) as machine:
            writing = machine.submit(former.write)
            wait_until(lambda: held.met)
            with Member(table, tmp_path) as member:
                member.live()
                former.die()
                table.site.to_store.release()
                assert writing.exception() is not None
            table.assert_whole()
    assert recover(table, tmp_path) == {LAST + 1}
