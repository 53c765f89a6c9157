"""What the page says first: what is wrong, since when, what happens next, and whether records are safe."""

import re
from dataclasses import replace

import pytest

from app.config.parsers import schedule
from app.model import Maintenance
from app.parts.console.sentences import Sentence, headline, remarks
from app.parts.console.shown_status import of_tables
from app.parts.console.status_page import View, render
from app.retries import Trouble
from tests.support.status_views import KAFKA_AWAY, NOW, VIEWS, changed, running, several


def top(view: View) -> Sentence:
    return headline(view.status)


@pytest.mark.parametrize(
    ("name", "tone", "title"),
    [
        ("starting", "quiet", "Starting: connecting to Kafka, the store and the catalog"),
        ("starting without Kafka", "wait", "Kafka is not available"),
        ("joining", "quiet", "No partition is assigned to this replica"),
        ("taking over", "quiet", "Taking over 11 partitions"),
        ("running", "good", "Running: the table is up to date"),
        ("Kafka away", "wait", "Kafka is not available"),
        ("topic gone", "wait", "The input topic is not available"),
        ("store away", "wait", "The store is not available"),
        ("catalog away", "bad", "The catalog is not available"),
        ("Spark lost", "bad", "Spark is gone"),
        ("refused", "bad", "The store refuses a request"),
        ("hangs", "bad", "The consumer hangs"),
        ("fenced", "wait", "Another member of the group writes sensor-data 3-5, 9"),
        ("catching up", "wait", "Running: caught up in about 15 min 16 s"),
        ("falling behind", "wait", "Running, but the lag does not shrink"),
        ("dead letters", "good", "Running: the table is up to date"),
        ("records missing", "bad", "Running, but records are missing"),
        ("stopping", "quiet", "Stopping"),
    ],
)
def test_the_headline_of_each_state(name: str, tone: str, title: str) -> None:
    found = top(VIEWS[name]())
    assert (found.tone, found.title) == (tone, title)


def test_a_store_that_hangs_is_named_though_there_is_no_error_yet() -> None:
    view = VIEWS["running"]()
    hangs = Trouble("store", "writing the journal", "no answer yet", seconds=42, is_unanswered=True)
    found = top(changed(view, state="waiting", waits=(hangs,)))
    assert (found.tone, found.title, found.seconds) == ("wait", "The store does not answer", 42)
    assert found.next.startswith("The connector waits for the answer, retries after a minute or two, and continues")
    assert found.to_do.startswith("Check that the store is up")


def test_it_is_red_only_once_a_wait_takes_too_long() -> None:
    view = VIEWS["Kafka away"]()
    waits = [replace(KAFKA_AWAY, seconds=seconds) for seconds in (5.0, 599.0, 600.0)]
    tones = [top(changed(view, waits=(wait,))).tone for wait in waits]
    assert tones == ["wait", "wait", "bad"]


def test_another_program_in_the_group_is_named_with_what_to_do_once_it_stays() -> None:
    view = running()
    counts = replace(view.status.counts, programs=["old-sink at /10.0.0.7"], programs_since=view.status.counts.at - 19)
    assert top(changed(view, counts=counts)).tone == "good"
    found = top(changed(view, counts=replace(counts, programs_since=counts.at - 45)))
    assert (found.tone, found.seconds) == ("bad", 45)
    assert found.title.endswith(": old-sink at /10.0.0.7")
    assert found.to_do.startswith("Stop that program, or set CONSUMER_GROUP")


def test_a_loss_is_told_from_the_moment_that_it_was_found() -> None:
    view = VIEWS["records missing"]()
    counts = view.status.counts
    found = top(changed(view, counts=replace(counts, at=counts.losses[0][0] + 70)))
    assert found.seconds == 70


@pytest.mark.parametrize("name", VIEWS)
def test_red_is_where_somebody_has_to_do_something(name: str) -> None:
    page = render(VIEWS[name]())
    is_red = bool(re.search(r'class="[^"]*\bbad\b', page))
    assert is_red == (top(VIEWS[name]()).tone == "bad")


def test_records_that_are_left_out() -> None:
    view = running()
    assert not list(remarks(view.status))
    [found] = remarks(changed(view, skipped=3).status)
    assert found.title == "3 records skipped since the start (ON_BAD_RECORD=skip)"


def test_topics_that_are_not_written() -> None:
    view = changed(several(2), left_out={"..odd": "its table's name ..odd: no dot first"}, deleted=["gone"])
    [found] = remarks(view.status)
    assert found.title == "2 topics not written by this replica: ..odd, gone"
    assert found.reason.startswith("..odd: its table's name ..odd: no dot first. gone: It does not exist in "), found
    assert all(not list(remarks(each)) for each in of_tables(view.status)), "each page tells of its own table"


def test_a_refusal_to_erase_most_of_the_table_says_how_to_confirm_it() -> None:
    view = running()
    counts = replace(view.status.counts, maintenance=Maintenance(refused=93.4))
    settings = view.status.settings.model_copy(update={"keep": "400d"})
    [found] = remarks(changed(view, settings=settings, counts=counts).status)
    assert found.title == "KEEP=400d would erase 93 % of the table"
    assert "set KEEP_CONFIRMED" in found.reason
    assert not list(remarks(changed(view, counts=counts).status)), "without KEEP"


def test_a_compaction_that_leaves_folders_or_does_not_end() -> None:
    view = running()
    settings = view.status.settings.model_copy(update={"compact": schedule("1h")})
    since = NOW - 100 * 3_600
    failed = Maintenance(NOW - 60, NOW - 30, 40, 2, failed=3)
    counts = replace(view.status.counts, consuming_since=since, maintenance=failed)
    assert [found.title for found in remarks(changed(view, settings=settings, counts=counts).status)] == [
        "The last compaction failed in 3 folders"
    ]
    counts = replace(counts, maintenance=Maintenance(NOW - 60, NOW - 3 * 3_600, 40, 2))
    assert [found.title for found in remarks(changed(view, settings=settings, counts=counts).status)] == [
        "No compaction has completed for 3 h"
    ]
    assert not list(remarks(view.status)), "without COMPACT"
