"""What the next owner makes of a batch that a former one left: kept whole, or undone whole."""

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from app.errors import RetryableError
from app.journal.entry import JournaledFile, JournalEntry
from tests.unit.journal.journal_bench import OURS, Bench, intent, key_of

DAY = 24 * 3600


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.check_versions()


# --- kept or undone -------------------------------------------------------------------------------------------------


def test_a_batch_that_is_all_there_is_registered_and_kept(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench.begun(end=4).intend(intent("1", "2", end=9, also=["letter"]))
    bench.store_files("1", "2", "letter")
    bench.recovered()
    assert bench.registered == [[key_of("1"), key_of("2")]]
    assert (bench.entry.state, bench.entry.end, bench.entry.files, bench.entry.also) == ("done", 9, (), ())
    assert bench.rolled_back == []
    assert all(bench.has(name) for name in ("1", "2", "letter"))
    assert "batch 0 of a former owner was complete: kept" in caplog.text


def test_a_batch_is_registered_before_the_journal_says_that_it_is_done(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    bench.store_files("1")
    journal = bench.claimed()

    def refuse(_: Sequence[JournaledFile]) -> NoReturn:
        raise RetryableError("registering files", "503")

    with pytest.raises(RetryableError):
        journal.recover(refuse, bench.left_in_kafka)
    assert (bench.entry.state, bench.entry.end) == ("kept", 9)
    journal.recover(bench.register, bench.left_in_kafka)
    assert (bench.entry.state, bench.entry.end) == ("done", 9)
    assert bench.registered == [[key_of("1")]]


@pytest.mark.parametrize("missing", ["1", "2"])
def test_a_batch_of_which_a_file_is_missing_is_undone(
    bench: Bench, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.begun(end=4).intend(intent("1", "2", end=9, also=["letter"]))
    bench.store_files(*{"1", "2", "letter"} - {missing})
    bench.recovered()
    assert bench.registered == []
    assert (bench.entry.state, bench.entry.end, bench.entry.files, bench.entry.also) == ("done", 4, (), ())
    assert bench.rolled_back == [key_of("1"), key_of("2"), key_of("letter")]
    assert not any(bench.has(name) for name in ("1", "2", "letter"))
    assert "batch 0 of a former owner was not complete (1 of 3 objects missing): undone" in caplog.text
    assert bench.asked == [0]


def test_a_batch_whose_dead_letter_was_cleaned_away_is_kept(bench: Bench) -> None:
    """It was there before the last data file."""
    bench.begun(end=4).intend(intent("1", "2", end=9, also=["letter", "index"]))
    bench.store_files("1", "2")
    bench.recovered()
    assert bench.registered == [[key_of("1"), key_of("2")]]
    assert (bench.entry.state, bench.entry.end, bench.rolled_back) == ("done", 9, [])
    assert bench.has("1")
    assert bench.asked == [], "of Kafka nothing is needed"


def test_of_a_batch_that_an_earlier_release_left_behind_every_object_counts(bench: Bench) -> None:
    """It uploaded in any order: the data files may be there and the dead letter not yet."""
    bench.begun(end=4).intend(intent("1", end=9, also=["letter"]))
    fields = json.loads(bench.entry.to_body())
    del fields["also_first"]
    bench.overwrite(json.dumps(fields).encode())
    bench.store_files("1")
    bench.recovered()
    assert (bench.entry.state, bench.entry.end) == ("done", 4)
    assert bench.rolled_back == [key_of("1"), key_of("letter")]


@pytest.mark.parametrize("body", [b"", b"012345678", b"0123456789+"])
def test_a_file_of_another_size_is_missing(bench: Bench, body: bytes) -> None:
    bench.begun().intend(intent("1", "2"))
    bench.store_files("1")
    bench.store_files("2", body=body)
    bench.recovered()
    assert bench.registered == []
    assert bench.entry.end == -1
    assert not bench.has("1")
    assert not bench.has("2")


def test_an_object_whose_size_nobody_knows_is_there_at_any_size(bench: Bench) -> None:
    bench.begun().intend(intent("1", also=["letter"]))
    bench.store_files("1")
    bench.store_files("letter", body=b"any")
    bench.recovered()
    assert bench.registered == [[key_of("1")]]


def test_a_file_that_an_old_listing_lacks_is_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a share, replicas on other machines may see what was there a minute ago."""
    bench.begun().intend(intent("1"))
    bench.store_files("1")
    monkeypatch.setattr(bench.store, "list", lambda _: iter(()))
    bench.recovered()
    assert bench.registered == [[key_of("1")]]
    assert bench.has("1")


def test_a_longer_name_that_begins_like_a_file_is_not_the_file(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    bench.store_files("10")
    bench.recovered()
    assert bench.registered == []
    assert bench.has("10")


def test_a_batch_of_dead_letters_alone_is_kept_or_undone_too(bench: Bench) -> None:
    bench.begun().intend(intent(end=3, also=["letter"]))
    bench.store_files("letter")
    journal = bench.recovered()
    assert bench.entry.end == 3
    assert bench.has("letter")
    journal.intend(intent(batch=1, end=5, also=["letter2"]))
    bench.recovered(OURS)
    assert bench.entry.end == 3
    assert bench.rolled_back == [key_of("letter2")]


def test_files_are_deleted_only_once_the_journal_names_them_as_rolled_back(bench: Bench) -> None:
    """Before that, their owner might register them."""
    bench.begun().intend(intent("1", "2"))
    bench.store_files("1")
    journal = bench.claimed()
    bench.store.refuse_small = lambda key: RetryableError(f"writing {key}", "503")
    with pytest.raises(RetryableError):
        journal.recover(bench.register, bench.left_in_kafka)
    assert bench.store.deleted == []
    assert bench.has("1")

    seen: list[list[str]] = []

    def look(_: str) -> None:
        seen.append(bench.rolled_back)

    bench.store.refuse_small = lambda _: None
    bench.store.refuse_delete = look
    journal.recover(bench.register, bench.left_in_kafka)
    assert seen == [[key_of("1"), key_of("2")]] * 2
    assert not bench.has("1")


def test_a_deletion_that_fails_keeps_the_claim_waiting_and_is_repeated(bench: Bench) -> None:
    bench.begun().intend(intent("1", "2"))
    bench.store_files("1")
    journal = bench.claimed()
    bench.store.refuse_delete = lambda key: RetryableError(f"deleting {key}", "503")
    for _ in range(2):
        with pytest.raises(RetryableError, match="deleting"):
            journal.recover(bench.register, bench.left_in_kafka)
    assert bench.has("1")
    bench.store.refuse_delete = lambda _: None
    journal.recover(bench.register, bench.left_in_kafka)
    assert not bench.has("1")
    assert bench.registered == []


# --- what Kafka cannot give again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [(7, 10), (10, 10), (0, 0), (5, 8)], ids=["tail", "none", "other topic", "head"])
def test_files_whose_rows_are_gone_from_kafka_stay_though_others_are_missing(
    bench: Bench, left: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    bench.begun(end=4).intend(intent("1", "2", "3", end=9, also=["letter", "lost letter"]))
    bench.store_files("1", "3", "letter")
    bench.kafka = left
    bench.recovered()
    assert bench.registered == [[key_of("1"), key_of("3")]]
    assert (bench.entry.state, bench.entry.end, bench.rolled_back) == ("done", 9, [])
    assert all(bench.has(name) for name in ("1", "3", "letter"))
    assert bench.store.deleted == []
    (text,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "batch 0 of a former owner (offsets 5 to 9) is not complete" in text
    assert f"2 of 5 objects with 2 rows are missing: {key_of('2')}, {key_of('lost letter')}" in text


def test_a_file_of_another_size_is_not_registered_where_the_rest_is_kept(bench: Bench) -> None:
    bench.begun(end=4).intend(intent("1", "2", end=9))
    bench.store_files("1")
    bench.store_files("2", body=b"half")
    bench.kafka = (10, 10)
    bench.recovered()
    assert bench.registered == [[key_of("1")]]
    assert bench.has("2")


@pytest.mark.parametrize("left", [(7, 10), (10, 10)])
def test_a_batch_of_which_nothing_is_there_is_undone_whatever_kafka_has(bench: Bench, left: tuple[int, int]) -> None:
    bench.begun(end=4).intend(intent("1", "2", end=9, also=["letter"]))
    bench.kafka = left
    bench.recovered()
    assert (bench.entry.state, bench.entry.end) == ("done", 4)


@pytest.mark.parametrize(("left", "end"), [((7, 10), 4), ((10, 10), 9)])
def test_a_dead_letter_alone_stays_where_none_of_the_records_come_again(
    bench: Bench, left: tuple[int, int], end: int
) -> None:
    bench.begun(end=4).intend(intent("1", end=9, also=["letter"]))
    bench.store_files("letter")
    bench.kafka = left
    bench.recovered()
    assert (bench.entry.state, bench.entry.end) == ("done", end)
    assert bench.has("letter") == (end == 9)


def test_kafka_that_does_not_answer_leaves_the_batch_as_it_is(bench: Bench) -> None:
    bench.begun().intend(intent("1", "2"))
    bench.store_files("1")
    journal = bench.claimed()

    def refuse(_: JournalEntry) -> NoReturn:
        raise RetryableError("asking Kafka", "no answer")

    with pytest.raises(RetryableError):
        journal.recover(bench.register, refuse)
    assert (bench.entry.state, bench.entry.end) == ("pending", 9)
    assert bench.has("1")


def test_a_batch_once_kept_is_kept_whatever_the_next_claim_sees(bench: Bench) -> None:
    """The one that decided may have registered it already, and its question to Kafka may get another answer."""
    bench.begun(end=4).intend(intent("1", "2", end=9))
    bench.store_files("1")
    bench.kafka = (10, 10)

    def refuse(_: Sequence[JournaledFile]) -> NoReturn:
        raise RetryableError("registering files", "503")

    with pytest.raises(RetryableError):
        bench.claimed().recover(refuse, bench.left_in_kafka)
    bench.kafka = None
    bench.recovered(OURS)
    assert bench.registered == [[key_of("1")]]
    assert (bench.entry.end, bench.rolled_back) == (9, [])
    assert bench.has("1")


# --- what was undone ------------------------------------------------------------------------------------------------


def test_every_owner_deletes_what_was_rolled_back_before_it(bench: Bench) -> None:
    """An upload of a fenced member may land after the first deletion."""
    bench.begun().intend(intent("1", "2"))
    bench.recovered()
    bench.store_files("1")
    bench.recovered(OURS)
    assert not bench.has("1")
    assert bench.registered == []


def test_an_owner_deletes_what_was_rolled_back_again_from_time_to_time(bench: Bench) -> None:
    bench.begun().intend(intent("1", "2"))
    journal = bench.recovered()
    journal.intend(intent("3", batch=1))
    bench.store_files("1", "3")
    journal.delete_rolled_back()
    assert not bench.has("1")
    assert bench.has("3")


def test_a_claim_after_many_crashes_does_not_delete_everything_once_more(bench: Bench) -> None:
    """A loop of crashes makes the list grow: what was deleted before is swept beside the work."""
    owner = bench.begun()
    for number in range(30):
        owner.intend(intent(*(f"{number}-{index}" for index in range(100)), batch=number))
        bench.store_files(f"{number}-0")
        bench.store.deleted.clear()
        owner = bench.recovered(f"{number:08x}")
        assert len(bench.store.deleted) <= 1_000
        assert not bench.has(f"{number}-0")
        owner.begin(-1, "id")
    assert len(bench.rolled_back) == 3_000
    bench.store_files("0-1")
    bench.store.deleted.clear()
    owner.delete_rolled_back()
    assert len(bench.store.deleted) == 3_000
    assert not bench.has("0-1")


def test_what_a_claim_had_no_time_to_delete_is_deleted_by_the_next_however_long_the_list(bench: Bench) -> None:
    owner = bench.begun()
    owner.intend(intent(*(f"first-{index}" for index in range(50))))
    bench.store_files("first-0")
    bench.store.refuse_delete = lambda key: RetryableError(f"deleting {key}", "503")
    with pytest.raises(RetryableError):
        bench.recovered()
    bench.store.refuse_delete = lambda _: None
    owner = bench.claimed(OURS)
    owner.intend(intent(*(f"second-{index}" for index in range(1_500))))
    bench.recovered()
    assert not bench.has("first-0")


def test_what_was_rolled_back_long_ago_is_swept_more_and_more_seldom(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    owner = bench.recovered()
    swept = 0
    for _ in range(6 * 24):
        bench.epoch.advance(600)
        bench.store.deleted.clear()
        owner.delete_rolled_back()
        swept += len(bench.store.deleted)
    assert 10 < swept < 20


def test_what_was_rolled_back_leaves_the_list_after_a_day_and_a_last_deletion(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    bench.recovered()
    bench.epoch.advance(DAY)
    bench.recovered(OURS).advance(5)
    assert bench.rolled_back == [key_of("1")]
    bench.epoch.advance(1)
    bench.store.deleted.clear()
    journal = bench.recovered()
    assert bench.store.deleted == [key_of("1")]
    journal.advance(6)
    assert bench.rolled_back == []


def test_what_was_rolled_back_is_deleted_also_where_nobody_came_for_days(bench: Bench) -> None:
    """Its owner died, or was refused, before the deletion."""
    bench.begun().intend(intent("1", "2"))
    bench.recovered()
    bench.store_files("1")
    bench.epoch.advance(3 * DAY)
    bench.claimed(OURS)
    assert bench.rolled_back == [key_of("1"), key_of("2")]
    bench.recovered()
    assert not bench.has("1")


def test_what_is_undone_later_keeps_its_own_time(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    journal = bench.recovered()
    bench.epoch.advance(DAY - 10)
    journal.intend(intent("2", batch=1))
    bench.recovered(OURS)
    assert bench.rolled_back == [key_of("1"), key_of("2")]
    bench.epoch.advance(11)
    bench.recovered().advance(99)
    assert bench.rolled_back == [key_of("2")]


def test_what_was_rolled_back_stays_on_the_list_whatever_comes_after(bench: Bench) -> None:
    bench.begun().intend(intent("1"))
    journal = bench.recovered()
    journal.begin(5, "id")
    journal.intend(intent("2", batch=1))
    journal.done(0)
    journal.advance(99)
    journal.switch_off()
    bench.claimed(OURS).begin(50, "id")
    assert bench.rolled_back == [key_of("1")]


def test_nothing_is_to_be_recovered_after_a_batch_that_is_done(bench: Bench) -> None:
    former = bench.begun()
    former.intend(intent("1"))
    former.done(0)
    bench.claimed().recover(bench.register, bench.left_in_kafka)
    assert bench.registered == []
    assert bench.store.deleted == []
    assert (bench.entry.end, bench.rolled_back) == (9, [])
