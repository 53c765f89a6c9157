"""Answers that do not tell what was done: nothing is then taken for done, or for undone, that is not."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import FatalError
from app.storage.base import ObjectStore
from tests.faults.members import BATCHES, LAST, PARTITIONS, Member, Table, recover
from tests.faults.proxy import Answer, Fault, Lost, Rule, Say, Slow, nth, on
from tests.faults.site import Site
from tests.faults.steps import DATA, JOURNAL, STEPS, Step, leave_behind, live, s3_error

CONDITIONAL = [
    "close",
    "take over",
    "point",
    "first take over",
    "first point",
    "close with a pending batch",
    "keep",
    "done theirs",
    "roll back",
    "intend",
    "done",
]
OF_STORE = [name for name, step in STEPS.items() if step.server == "store"]


@pytest.fixture(scope="module")
def stubborn(shared_site: Site) -> Iterator[ObjectStore]:
    """A store whose boto3 tries three times by itself, as in production, only without pauses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
        yield shared_site.new_store()


# --- the catalog ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [Lost(), Say(Answer(500), applied=True), Say(Answer(503), applied=True)],
    ids=["lost", "500 after it was done", "503 after it was done"],
)
@pytest.mark.parametrize("name", ["register", "register theirs"])
def test_files_that_may_be_registered_are_registered_again_under_the_same_paths(
    table: Table, tmp_path: Path, fault: Fault, name: str
) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    live(table, tmp_path, step, Rule(step.matches, fault, nth(1)))
    bodies = [json.loads(request.body) for request in table.site.to_catalog.seen if step.matches(request)]
    sent = [sorted(file["file_path"] for file in body["files"]) for body in bodies]
    assert sent.count(sent[0]) == 2, "the same again"
    counted = [paths for body, paths in zip(bodies, sent, strict=True) if "source" in body]
    assert counted.count(sent[0]) <= 1, "for its source it counts once"
    recover(table, tmp_path)


@pytest.mark.parametrize("page", [b"<html><body>Please log in</body></html>", b'"OK"'], ids=["login page", "text"])
@pytest.mark.parametrize("name", ["register", "register theirs"])
def test_a_page_with_status_200_is_no_registration(table: Table, tmp_path: Path, page: bytes, name: str) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    with pytest.raises(FatalError, match=r"the answer is not a JSON object.*Check that CATALOG_URL"):
        live(table, tmp_path, step, Rule(step.matches, Say(Answer(200, page, {"Content-Type": "text/html"})), nth(1)))
    recover(table, tmp_path)


# --- the store: writes that are done or not -------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["first", pytest.param("last", marks=pytest.mark.night)])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Lost(), id="lost"),
        pytest.param(Say(s3_error(412, "PreconditionFailed"), applied=True), id="412 when done"),
        pytest.param(Say(s3_error(409, "ConditionalRequestConflict")), id="409"),
        *(
            pytest.param(Say(s3_error(status, code), applied=True), id=f"{status} when done", marks=pytest.mark.night)
            for status, code in ((500, "InternalError"), (503, "SlowDown"), (409, "ConditionalRequestConflict"))
        ),
    ],
)
@pytest.mark.parametrize("name", CONDITIONAL)
def test_a_journal_that_may_be_written_is_read_back(
    table: Table, tmp_path: Path, stubborn: ObjectStore, name: str, fault: Fault, place: str
) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    rule = Rule(step.matches, fault, nth(1 if place == "first" else step.calls))
    live(table, tmp_path, step, rule, store=stubborn)
    assert rule.met == 1
    assert recover(table, tmp_path) == {LAST + 1}


@pytest.mark.parametrize("name", CONDITIONAL)
def test_a_journal_that_may_be_written_and_cannot_be_read_back_is_written_again(
    table: Table, tmp_path: Path, name: str
) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    reads = Rule(on("GET", JOURNAL), Say(s3_error(503, "SlowDown")), lambda *_: lost.met > 0 and reads.met < 2)
    lost = Rule(step.matches, Lost(), nth(1))
    table.site.to_store.add(reads)
    live(table, tmp_path, step, lost)
    assert (lost.met, reads.met) == (1, 2)
    assert recover(table, tmp_path) == {LAST + 1}


def test_offsets_that_may_be_moved_on_do_not_fence_their_own_writer(table: Table, tmp_path: Path) -> None:
    with Member(table, tmp_path) as member:
        member.claim()
        lost = table.site.to_store.add(Rule(on("PUT", JOURNAL), Lost(), nth(1)))
        away = table.site.to_store.add(Rule(on("GET", JOURNAL), Say(s3_error(503, "SlowDown")), nth(1)))
        with pytest.raises(Exception, match="SlowDown"):
            member.ownership.advance(member.token, {PARTITIONS[0]: 0})
        assert (lost.met, away.met) == (1, 1)
        member.starts[PARTITIONS[0]] = 1  # the row at offset 0 is one that was filtered out
        member.write()
        assert member.fenced == {}


@pytest.mark.parametrize("fault", [Lost(), Say(s3_error(500, "InternalError"), applied=True)], ids=["lost", "500"])
def test_a_file_that_may_be_stored_is_stored_again_under_the_same_key(
    table: Table, tmp_path: Path, stubborn: ObjectStore, fault: Fault
) -> None:
    step = STEPS["upload"]
    live(table, tmp_path, step, Rule(step.matches, fault, nth(1, 2)), store=stubborn)
    keys = {request.path for request in table.site.to_store.seen if step.matches(request)}
    assert len(keys) == step.calls
    assert recover(table, tmp_path) == {LAST + 1}


# --- the store: status 200 where nothing was done -------------------------------------------------------------------

ERROR_BODY = s3_error(200, "InternalError")
PAGE = Answer(200, b"<!DOCTYPE html><html><body><p>Please log in<br></body></html>", {"Content-Type": "text/html"})
XHTML = Answer(200, b"<html><body>Please log in</body></html>", {"Content-Type": "text/html"})
EMPTY = Answer(200)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ERROR_BODY, id="error"),
        *(
            pytest.param(answer, id=name, marks=pytest.mark.night)
            for name, answer in {"page": PAGE, "XHTML page": XHTML, "empty": EMPTY}.items()
        ),
    ],
)
@pytest.mark.parametrize("name", OF_STORE)
def test_status_200_alone_says_nothing(table: Table, tmp_path: Path, name: str, answer: Answer) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    rule = Rule(step.matches, Say(answer), nth(1))
    live(table, tmp_path, step, rule)
    assert rule.met == 1
    table.assert_whole()
    assert recover(table, tmp_path) == {LAST + 1}


@pytest.mark.parametrize("answer", [ERROR_BODY, PAGE, XHTML, EMPTY], ids=["error", "page", "XHTML page", "empty"])
def test_registered_files_are_not_rolled_back_for_a_listing_that_is_none(
    table: Table, tmp_path: Path, answer: Answer
) -> None:
    leave_behind("registered", table, tmp_path)
    registered = {file["file_path"] for file in table.site.catalog.files(table.name)}
    assert registered
    step = STEPS["check files, all there"]
    live(table, tmp_path, step, Rule(step.matches, Say(answer), nth(1)))
    assert registered <= {file["file_path"] for file in table.site.catalog.files(table.name)}
    table.assert_whole()


# --- slow answers ---------------------------------------------------------------------------------------------------


@pytest.mark.night
@pytest.mark.parametrize("name", STEPS)
def test_an_answer_that_keeps_coming_is_waited_for_beyond_the_time_out(table: Table, tmp_path: Path, name: str) -> None:
    step = STEPS[name]
    leave_behind(step.left, table, tmp_path)
    rule = Rule(step.matches, Slow(0.5, pieces=5), nth(1))  # 2.5 s, of a time-out of 2 s
    live(table, tmp_path, step, rule)
    assert rule.met == 1
    assert recover(table, tmp_path) == {LAST + 1}


def test_what_is_waited_for_is_told_once(table: Table, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    step = Step("nothing", "write", "store", on("PUT", DATA), BATCHES * 4)
    live(table, tmp_path, step, Rule(on("PUT", f"{DATA}a/"), Say(s3_error(503, "SlowDown")), nth(*range(1, 21))))
    lines = [record.getMessage() for record in caplog.records if record.name == "app.retry"]
    assert ["Trying again until it works" in line for line in lines][-2:] == [True, False]
    assert "it works again" in lines[-1]
    assert len(lines) < 20, "not at each try"
