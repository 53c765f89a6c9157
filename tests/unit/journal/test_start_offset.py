"""Where consuming begins after a claim."""

from dataclasses import replace
from typing import Literal

import pytest

from app.errors import ConfigError
from app.journal.log import Progress
from app.journal.start_offset import Start, check_cluster, start_of
from app.kafka.questions import PartitionOffsets
from app.model import TopicPartition

TP = TopicPartition("sensors", 0)


def entry(end: int = 499, topic_id: str = "id", cluster_id: str = "") -> Progress:
    return Progress(topic="sensors", partition=0, end=end, topic_id=topic_id, cluster_id=cluster_id)


def kafka(committed: int | None = None, low: int = 0, high: int = 1_000, topic_id: str = "id") -> PartitionOffsets:
    return PartitionOffsets(committed, low, high, topic_id)


def set_to(committed: int, low: int = 0, topic_id: str = "id") -> PartitionOffsets:
    return replace(kafka(committed, low, topic_id=topic_id), is_set=True)


def begin(
    journal: Progress | None,
    position: PartitionOffsets,
    reset: Literal["earliest", "latest"] = "latest",
    *,
    follows: bool = False,
    keeps_state: bool = False,
) -> Start:
    first = position.low if reset == "earliest" else position.high
    return start_of(TP, journal, position, first=first, follows=follows, keeps_state=keeps_state)


def without_remark(start: Start) -> Start:
    return replace(start, remark="")


# --- without a journal ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "start"),
    [
        (kafka(None, low=10), Start(1_000)),
        (kafka(10, low=10), Start(10)),
        (kafka(700, low=10), Start(700)),
        (kafka(1_000, low=10), Start(1_000)),
        (kafka(700, low=2_700, high=3_000), Start(2_700, is_loss=True)),
        (kafka(1_001, low=10), Start(10)),
    ],
    ids=["a new group", "the first", "committed", "the end", "expired", "beyond the end"],
)
def test_the_group_s_offset_decides(position: PartitionOffsets, start: Start) -> None:
    assert without_remark(begin(None, position)) == start
    new = position.committed is None
    assert without_remark(begin(None, position, "earliest")) == (Start(position.low) if new else start)


# --- with a journal -------------------------------------------------------------------------------------------------

AT_500 = Start(500)


@pytest.mark.parametrize(
    ("position", "start"),
    [
        (kafka(500), AT_500),
        (kafka(500, high=500), AT_500),
        (kafka(500, low=500), AT_500),
        (kafka(None), AT_500),
        (kafka(300), Start(500, skipped=200)),  # after a crash before the commit
    ],
)
def test_the_journal_decides_and_there_is_nothing_to_say(position: PartitionOffsets, start: Start) -> None:
    assert begin(entry(), position, "earliest") == begin(entry(), position, "latest") == start


@pytest.mark.parametrize("committed", [None, 100, 500, 501])  # the last as the framework's lane has committed it
def test_records_gone_before_they_were_read_are_a_loss_and_never_skip_to_the_latest(committed: int | None) -> None:
    start = begin(entry(), kafka(committed, low=501, high=2_000))
    assert (start.offset, start.is_loss) == (501, True)
    assert "offsets 500 to 500 (1 records)" in start.remark


@pytest.mark.parametrize("high", [0, 300, 499])
def test_the_same_topic_that_ends_before_the_journal_has_lost_records(high: int) -> None:
    """An unclean leader election; reading it again from its beginning would double the rows."""
    start = begin(entry(), kafka(500, high=high), "earliest")
    assert (start.offset, start.is_loss, start.skipped) == (high, True, 0)


# --- another topic of the same name ---------------------------------------------------------------------------------


@pytest.mark.parametrize("high", [5, 499, 500, 10_000])
def test_a_topic_with_another_id_is_read_from_its_beginning(high: int) -> None:
    start = begin(entry(), kafka(500, low=3, high=high, topic_id="another"))
    assert (start.offset, start.is_loss, start.skipped) == (3, False, 0)
    assert "recreated" in start.remark


@pytest.mark.parametrize(("before", "now"), [("", ""), ("id", ""), ("", "id")])
def test_where_an_id_is_unknown_the_end_of_the_topic_decides(before: str, now: str) -> None:
    start = begin(entry(topic_id=before), kafka(500, low=3, high=499, topic_id=now))
    assert (start.offset, start.is_loss) == (3, False)
    assert begin(entry(topic_id=before), kafka(500, high=500, topic_id=now)) == AT_500
    assert begin(entry(-1, before), kafka(None, high=0, topic_id=now)) == Start(0)


# --- moved on by hand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize(
    ("position", "offset", "is_loss"),
    [
        *((set_to(at), at, False) for at in (100, 499, 501, 900)),
        *((set_to(at, topic_id="another"), at, False) for at in (40, 500, 900)),
        (set_to(100, low=200), 200, True),
        (set_to(800, low=800), 800, False),  # the user has seen the gap and moved on
    ],
)
def test_a_group_moved_by_hand_goes_where_it_was_moved_and_says_so(
    position: PartitionOffsets, offset: int, *, is_loss: bool, keeps_state: bool
) -> None:
    start = begin(entry(), position, follows=True, keeps_state=keeps_state)
    assert without_remark(start) == Start(offset, is_loss=is_loss)
    assert start.remark.startswith(f"FOLLOW_OFFSETS: continuing from {offset}")


def test_an_offset_beyond_the_end_is_refused_for_nobody_can_mean_it() -> None:
    with pytest.raises(ConfigError, match=r"5000 is beyond the topic's end, 1000"):
        begin(entry(), set_to(5_000), follows=True)


@pytest.mark.parametrize("position", [kafka(None), kafka(500), set_to(500), kafka(300), kafka(40, topic_id="another")])
@pytest.mark.parametrize("keeps_state", [True, False])
def test_an_offset_that_nobody_has_set_is_not_followed(position: PartitionOffsets, *, keeps_state: bool) -> None:
    """As after a crash between the journal and the commit, or of a topic that was deleted."""
    start, by_journal = (begin(entry(), position, follows=each, keeps_state=keeps_state) for each in (True, False))
    assert start == by_journal


# --- with state -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "low", "offset", "replayed_to"),
    [
        (400, 0, 400, 499),
        (0, 0, 0, 499),
        (400, 450, 450, 499),
        (499, 499, 499, 499),
        # It lacks nothing that is there.
        (500, 0, 500, -1),
        (None, 0, 500, -1),
        (100, 500, 500, -1),
        (1_001, 0, 500, -1),
    ],
)
def test_what_the_state_lacks_comes_again_and_is_not_written(
    committed: int | None, low: int, offset: int, replayed_to: int
) -> None:
    start = begin(entry(), kafka(committed, low=low), keeps_state=True)
    assert (start.offset, start.replayed_to, start.in_table, start.is_loss) == (offset, replayed_to, 499, False)
    assert replayed_to == -1 or start.skipped == 0


# --- another program in the group ------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize(("committed", "low"), [(501, 0), (1_000, 0), (700, 600)])
def test_what_another_program_went_on_with_is_neither_skipped_nor_written_without_a_word(
    committed: int, low: int, *, keeps_state: bool
) -> None:
    cause = f"offsets 500 to {committed - 1} are not in the table, and another program"
    with pytest.raises(ConfigError, match=cause) as raised:
        begin(entry(), set_to(committed, low=low), keeps_state=keeps_state)
    assert "change the value of FOLLOW_OFFSETS" in raised.value.hint
    assert "set it back to 500, to write them" in raised.value.hint


@pytest.mark.parametrize("follows", [True, False])
def test_a_journal_that_was_set_back_is_not_taken_for_another_program_or_a_wish(*, follows: bool) -> None:
    with pytest.raises(ConfigError, match="a connector with a later journal") as raised:
        begin(entry(), kafka(700), follows=follows)
    assert "set the group's offset to 700 with a tool, and change the value of FOLLOW_OFFSETS" in raised.value.hint


# --- another cluster -------------------------------------------------------------------------------------------------


def test_the_journal_of_another_cluster_is_refused_and_both_are_named() -> None:
    with pytest.raises(ConfigError, match=r"one\b.*\btwo") as raised:
        check_cluster(entry(cluster_id="one"), "two", TP, follows=False)
    assert "offset 499" in raised.value.hint


@pytest.mark.parametrize(("before", "now"), [("one", "one"), ("", "two"), ("one", ""), ("", "")])
def test_a_cluster_whose_id_is_unknown_is_no_other_one(before: str, now: str) -> None:
    check_cluster(entry(cluster_id=before), now, TP, follows=False)
    assert begin(entry(cluster_id=before), replace(kafka(500), cluster_id=now)) == AT_500


@pytest.mark.parametrize(
    ("position", "offset"),
    [(kafka(20), 20), (kafka(None), 1_000), (kafka(500, topic_id="copy"), 500)],
    ids=["set", "not set", "copied, as by MirrorMaker"],
)
def test_a_topic_that_has_moved_goes_by_the_group(position: PartitionOffsets, offset: int) -> None:
    check_cluster(entry(cluster_id="one"), "two", TP, follows=True)
    start = begin(entry(cluster_id="one"), replace(position, cluster_id="two"), follows=True)
    assert start.offset == offset
    assert "the cluster is two now and was one" in start.remark
