"""What becomes of bad records by ON_BAD_RECORD, and how often it is told."""

import pytest

from app.bad_records.refusals import BadRecords, OnBadRecord
from app.errors import DataError
from app.model import Rejected, TopicPartition
from app.reason_texts import Reason
from tests.fakes.clock import Clock
from tests.support.batches import NOON, TP


def rejected(offset: int, tp: TopicPartition = TP) -> Rejected:
    return Rejected(tp, offset, NOON, b"key", b"{", None, Reason("no JSON"))


def test_the_process_ends_where_the_user_wants_it() -> None:
    with pytest.raises(DataError) as raised:
        BadRecords("fail", print).keep(rejected(7), "Mend it")
    assert str(raised.value) == "reading the record of sensors[0] at offset 7: no JSON. Mend it"
    assert raised.value.record == (TP, 7)


def test_a_flood_is_told_once_a_minute_with_its_number() -> None:
    told: list[str] = []
    clock = Clock()
    records = BadRecords("dead-letter", told.append, clock)
    assert all(records.keep(rejected(offset), "Mend it") for offset in range(1_000))
    clock.advance(61)
    records.keep(rejected(1_000), "Mend it")
    assert told == [
        "the record of sensors[0] at offset 0 goes to the dead letter: no JSON. Mend it",
        "the record of sensors[0] at offset 1000 goes to the dead letter: no JSON. Mend it "
        "(999 more since the last such message)",
    ]


def test_a_flood_of_one_topic_hides_no_other_topic() -> None:
    told: list[str] = []
    clock = Clock()
    records = BadRecords("dead-letter", told.append, clock)
    for offset in range(1_000):
        records.keep(rejected(offset), "Mend it")
    records.keep(rejected(7, TopicPartition("orders", 0)), "Mend it")
    assert [line.partition(" at ")[0] for line in told] == ["the record of sensors[0]", "the record of orders[0]"]


def test_topics_without_end_do_not_fill_the_log() -> None:
    told: list[str] = []
    clock = Clock()
    records = BadRecords("dead-letter", told.append, clock)
    for number in range(1_000):
        records.keep(rejected(0, TopicPartition(f"topic-{number}", 0)), "Mend it")
    assert len(told) == 201
    clock.advance(61)
    records.keep(rejected(1, TopicPartition("topic-999", 0)), "Mend it")
    assert told[-1].startswith("the record of topic-999[0]"), "topics of earlier minutes leave their place"


@pytest.mark.parametrize(
    ("choice", "first", "fate"),
    [
        ("dead-letter", "goes to the dead letter", "went to the dead letter"),
        ("skip", "is skipped (ON_BAD_RECORD=skip)", "were skipped (ON_BAD_RECORD=skip)"),
    ],
)
def test_all_of_them_are_told_at_the_end(choice: OnBadRecord, first: str, fate: str) -> None:
    told: list[str] = []
    records = BadRecords(choice, told.append, Clock())
    records.log_total()
    assert told == []
    for offset in range(1_001):
        assert records.keep(rejected(offset), "Mend it") == (choice == "dead-letter")
    assert told == [f"the record of sensors[0] at offset 0 {first}: no JSON. Mend it"]
    records.log_total()
    assert told[1:] == [f"bad records since the start: 1,001; they {fate}"]
