"""Where consuming begins after a claim."""

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ConfigError
from app.journal.group_offsets import CommitMark, PartitionOffsets
from app.journal.log import Progress
from app.journal.start_offset import Start, StartFrom, check_cluster, start_of
from app.model import TopicPartition

TP = TopicPartition("sensors", 0)


def entry(end: int, topic_id: str = "id") -> Progress:
    return Progress(topic="sensors", partition=0, end=end, topic_id=topic_id)


def kafka(
    committed: int | None = None, low: int = 0, high: int = 1_000, topic_id: str = "id", of: str | None = None
) -> PartitionOffsets:
    """``of`` is the topic in whose life the connector has committed the offset: none where another program did."""
    return PartitionOffsets(committed, low, high, topic_id, mark=None if of is None else CommitMark(of))


def begin(
    journal: Progress | None,
    position: PartitionOffsets,
    reset: Literal["earliest", "latest"] = "latest",
    *,
    start_from: StartFrom = "auto",
    keeps_state: bool = False,
) -> Start:
    first = position.low if reset == "earliest" else position.high
    return start_of(TP, journal, position, first=first, start_from=start_from, keeps_state=keeps_state)


# --- Kafka alone says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 10), ("latest", 1_000)])
def test_a_new_group_begins_where_the_settings_say(reset: Literal["earliest", "latest"], offset: int) -> None:
    assert begin(None, kafka(None, low=10), reset) == Start(offset, moves_group=True)


@pytest.mark.parametrize("committed", [10, 700, 1_000])
def test_the_offset_of_the_group_is_where_it_begins(committed: int) -> None:
    assert begin(None, kafka(committed, low=10)) == Start(committed)


def test_expired_offsets_of_the_group_are_a_loss_and_lead_to_the_first_that_is_there() -> None:
    start = begin(None, kafka(700, low=2_700, high=3_000), "latest")
    assert (start.offset, start.is_loss, start.moves_group) == (2_700, True, True)
    assert "offsets 700 to 2699 (2,000 records) are not in the table, and Kafka has deleted them" in start.remark
    assert "going on from 2700" in start.remark


def test_an_offset_of_the_group_beyond_the_end_leads_to_the_beginning() -> None:
    start = begin(None, kafka(1_001, low=10), "latest")
    assert (start.offset, start.is_loss) == (10, False)
    assert "the group's offset 1001 is beyond the topic's end: from 10 on" in start.remark


# --- the journal says -----------------------------------------------------------------------------------------------


def test_the_journal_is_where_it_begins() -> None:
    assert begin(entry(499), kafka(500)) == Start(500)


def test_at_the_end_of_the_topic_it_begins_with_the_next_record() -> None:
    assert begin(entry(999), kafka(1_000)) == Start(1_000)


def test_at_the_first_record_that_is_there_nothing_is_lost() -> None:
    assert begin(entry(499), kafka(500, low=500)) == Start(500)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_group_whose_offsets_are_gone_goes_by_the_journal(reset: Literal["earliest", "latest"]) -> None:
    assert begin(entry(499), kafka(None), reset) == Start(500, moves_group=True)


def test_rows_after_the_offset_of_the_group_that_are_in_the_table_are_skipped_and_counted() -> None:
    """After a crash before the commit, or an offset reset by hand."""
    assert begin(entry(499), kafka(300)) == Start(500, skipped=200, moves_group=True)


def test_an_offset_of_the_group_that_is_ahead_does_not_count() -> None:
    """A member that is fenced by now may have committed it."""
    assert begin(entry(499), kafka(700, of="id")) == Start(500, moves_group=True)


@pytest.mark.parametrize("committed", [None, 100, 500, 700])
def test_records_gone_before_they_were_read_are_a_loss_and_never_skip_to_the_latest(committed: int | None) -> None:
    start = begin(entry(499), kafka(committed, low=501, high=2_000, of="id"), "latest")
    assert (start.offset, start.is_loss) == (501, True)
    assert "offsets 500 to 500 (1 records) are not in the table" in start.remark


# --- another topic of the same name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("start_from", "of"), [("auto", None), ("auto", "id"), ("journal", None), ("committed", "id")])
@pytest.mark.parametrize("high", [5, 499, 500, 501, 10_000])
def test_a_topic_with_another_id_is_read_from_its_beginning(high: int, start_from: StartFrom, of: str | None) -> None:
    position = kafka(500, low=3, high=high, topic_id="another", of=of)
    start = begin(entry(499), position, "latest", start_from=start_from)
    assert (start.offset, start.is_loss, start.skipped) == (3, False, 0)
    assert start.remark == "the topic was recreated since offset 499 was written: going on from its beginning, 3"


@pytest.mark.parametrize(("before", "now"), [("", ""), ("id", ""), ("", "id")])
def test_where_an_id_is_unknown_the_end_of_the_topic_decides(before: str, now: str) -> None:
    start = begin(entry(499, before), kafka(500, low=3, high=499, topic_id=now))
    assert (start.offset, start.is_loss) == (3, False)
    assert "recreated" in start.remark
    assert begin(entry(499, before), kafka(500, high=500, topic_id=now)) == Start(500)


@pytest.mark.parametrize("high", [0, 300, 499])
def test_the_same_topic_that_ends_before_the_journal_has_lost_records(high: int) -> None:
    """An unclean leader election; reading it again from its beginning would double the rows."""
    start = begin(entry(499), kafka(500, high=high), "earliest")
    assert (start.offset, start.is_loss, start.skipped) == (high, True, 0)
    assert f"Kafka ends at offset {high}, before 499 which is in the table" in start.remark


def test_an_empty_journal_of_an_empty_topic_is_the_same_topic() -> None:
    assert begin(entry(-1, ""), kafka(None, high=0, topic_id="")) == Start(0, moves_group=True)


# --- moved on by hand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [100, 499, 501, 900])
def test_a_group_moved_by_hand_goes_where_it_was_moved_and_says_so(committed: int) -> None:
    start = begin(entry(499), kafka(committed), start_from="committed")
    assert (start.offset, start.is_loss, start.skipped) == (committed, False, 0)
    assert start.remark == f"START_FROM=committed: going on from {committed}, the journal is at 500"


def test_a_group_without_an_offset_was_not_moved() -> None:
    assert begin(entry(499), kafka(None), start_from="committed") == Start(500, moves_group=True)


def test_an_offset_moved_to_where_the_journal_is_becomes_the_connectors_own() -> None:
    assert begin(entry(499), kafka(500), start_from="committed") == Start(500, moves_group=True)


@pytest.mark.parametrize("committed", [40, 499, 501, 900])
def test_what_the_connector_has_committed_was_not_moved_by_hand(committed: int) -> None:
    """A start that was to follow an offset has done so, and has crashed since."""
    start = begin(entry(499), kafka(committed, of="id"), start_from="committed")
    assert (start.offset, start.skipped) == (500, max(500 - committed, 0))


@pytest.mark.parametrize("committed", [40, 500, 900])
def test_a_group_moved_in_a_recreated_topic_goes_where_it_was_moved(committed: int) -> None:
    start = begin(entry(499), kafka(committed, topic_id="another"), start_from="committed")
    assert (start.offset, start.moves_group) == (committed, True)
    why = "the journal is of a deleted topic of the same name"
    assert start.remark == f"START_FROM=committed: going on from {committed}, {why}"


def test_a_group_moved_before_the_first_record_begins_with_that_and_hears_of_the_loss() -> None:
    start = begin(entry(499), kafka(100, low=200), start_from="committed")
    assert (start.offset, start.is_loss) == (200, True)
    assert start.remark.startswith("START_FROM=committed: going on from 200, the journal is at 500. offsets 100 to 199")


def test_a_group_moved_beyond_the_end_begins_with_the_first_record() -> None:
    start = begin(entry(499), kafka(5_000, low=200), start_from="committed")
    assert start.offset == 200
    assert "the group's offset 5000 is beyond the topic's end" in start.remark


def test_a_group_moved_onto_what_was_lost_is_no_loss_of_the_journal() -> None:
    """The user has seen the gap and moved on."""
    start = begin(entry(499), kafka(800, low=800), start_from="committed")
    assert (start.offset, start.is_loss) == (800, False)


# --- with state -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("committed", "low", "offset"), [(400, 0, 400), (0, 0, 0), (400, 450, 450), (499, 499, 499)])
def test_what_the_state_lacks_comes_again_and_is_not_written(committed: int, low: int, offset: int) -> None:
    start = begin(entry(499), kafka(committed, low=low), keeps_state=True)
    assert (start.offset, start.replayed_to, start.in_table) == (offset, 499, 499)
    assert (start.skipped, start.is_loss) == (0, False)
    assert f"{500 - offset:,} records from offset {offset} on are in the table already" in start.remark


@pytest.mark.parametrize(("committed", "low"), [(501, 0), (700, 0), (1_000, 0), (700, 600)])
def test_records_that_gave_no_rows_and_are_in_the_state_do_not_come_again(committed: int, low: int) -> None:
    assert begin(entry(499), kafka(committed, low=low, of="id"), keeps_state=True) == Start(committed)


@pytest.mark.parametrize(("committed", "low"), [(500, 0), (None, 0), (100, 500), (1_001, 0)])
def test_where_the_state_lacks_nothing_that_is_there_the_journal_says_where_it_begins(
    committed: int | None, low: int
) -> None:
    start = begin(entry(499), kafka(committed, low=low), keeps_state=True)
    assert (start.offset, start.replayed_to, start.in_table) == (500, -1, 499)


def test_offsets_moved_by_hand_are_written_again_also_with_state() -> None:
    start = begin(entry(499), kafka(100), start_from="committed", keeps_state=True)
    assert (start.offset, start.replayed_to) == (100, -1)


# --- another program in the group ------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize(("committed", "low"), [(501, 0), (1_000, 0), (700, 600)])
def test_what_another_program_went_on_with_is_neither_skipped_nor_written_without_a_word(
    committed: int, low: int, *, keeps_state: bool
) -> None:
    with pytest.raises(
        ConfigError, match=f"claiming sensors.0.: offsets 500 to {committed - 1} are not in the table"
    ) as raised:
        begin(entry(499), kafka(committed, low=low), keeps_state=keeps_state)
    assert "START_FROM=committed" in raised.value.hint
    assert "START_FROM=journal" in raised.value.hint


@pytest.mark.parametrize("keeps_state", [True, False])
def test_each_answer_leads_on(*, keeps_state: bool) -> None:
    again = begin(entry(499), kafka(800), start_from="journal", keeps_state=keeps_state)
    assert (again.offset, again.moves_group) == (500, True)
    assert "another program has committed them for the consumer group: they are written now" in again.remark
    after = begin(entry(499), kafka(800), start_from="committed", keeps_state=keeps_state)
    assert (after.offset, after.moves_group) == (800, True)


@pytest.mark.parametrize("committed", [400, 500, 501, 1_000])
def test_what_the_connector_has_committed_itself_is_no_other_program(committed: int) -> None:
    """Rows that were filtered out, or a member that had lost the partition already."""
    assert begin(entry(499), kafka(committed, of="id")).remark == ""


@pytest.mark.parametrize("committed", [None, 0, 400, 500])
def test_an_offset_that_is_not_ahead_is_nothing_to_ask_about(committed: int | None) -> None:
    assert begin(entry(499), kafka(committed)).offset == 500


# --- offsets of a topic that is gone ---------------------------------------------------------------------------------


def test_an_offset_committed_in_a_deleted_topic_of_the_name_does_not_count() -> None:
    start = begin(None, kafka(700, low=3, topic_id="another", of="id"))
    assert start.offset == 3
    assert "the topic was recreated since offset 700 was committed" in start.remark


@pytest.mark.parametrize("committed", [200, 400, 600])
@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_recreated_topic_begun_without_a_commit_goes_by_its_journal(committed: int, *, keeps_state: bool) -> None:
    journal = entry(299, topic_id="another")
    start = begin(journal, kafka(committed, low=3, topic_id="another", of="id"), keeps_state=keeps_state)
    assert start == Start(300, moves_group=True)


# --- another cluster -------------------------------------------------------------------------------------------------


def of_cluster(end: int, cluster_id: str) -> Progress:
    return entry(end).changed(cluster_id=cluster_id)


def test_the_journal_of_another_cluster_is_refused_and_both_are_named() -> None:
    with pytest.raises(ConfigError, match="of the Kafka cluster one, and this is the cluster two") as raised:
        check_cluster(of_cluster(499, "one"), "two", TP, "auto")
    assert "all up to offset 499" in raised.value.hint


@pytest.mark.parametrize(("before", "now"), [("one", "one"), ("", "two"), ("one", ""), ("", "")])
def test_a_cluster_whose_id_is_unknown_is_no_other_one(before: str, now: str) -> None:
    check_cluster(of_cluster(499, before), now, TP, "auto")
    position = replace(kafka(500), cluster_id=now)
    assert begin(of_cluster(499, before), position) == Start(500)


@pytest.mark.parametrize(("committed", "offset"), [(20, 20), (None, 1_000)])
def test_a_topic_that_has_moved_goes_by_the_group(committed: int | None, offset: int) -> None:
    check_cluster(of_cluster(499, "one"), "two", TP, "committed")
    start = begin(of_cluster(499, "one"), replace(kafka(committed), cluster_id="two"), start_from="committed")
    assert (start.offset, start.moves_group) == (offset, True)
    assert "the cluster is two now and was one" in start.remark


def test_an_offset_that_was_copied_between_clusters_with_its_mark_is_followed_and_marked_again() -> None:
    """As by MirrorMaker, or a linked cluster, where offsets stay what they were."""
    position = replace(kafka(500, topic_id="copy", of="id"), cluster_id="two")
    start = begin(of_cluster(499, "one"), position, start_from="committed")
    assert (start.offset, start.moves_group) == (500, True)


# --- whatever they say ----------------------------------------------------------------------------------------------

offsets = st.integers(0, 60)


@given(
    end=st.integers(-1, 60),
    committed=st.none() | offsets,
    bounds=st.tuples(offsets, offsets),
    ids=st.sampled_from([("id", "id"), ("id", "new"), ("", "id"), ("", "")]),
    reset=st.sampled_from(["earliest", "latest"]),
    is_marked=st.booleans(),
)
def test_a_journal_of_the_same_topic_loses_and_doubles_nothing_that_kafka_still_has(
    end: int,
    committed: int | None,
    bounds: tuple[int, int],
    ids: tuple[str, str],
    reset: Literal["earliest", "latest"],
    *,
    is_marked: bool,
) -> None:
    low, high = sorted(bounds)
    position = PartitionOffsets(committed, low, high, ids[1], mark=CommitMark(ids[0]) if is_marked else None)
    start = begin(entry(end, ids[0]), position, reset, start_from="auto" if is_marked else "journal")
    assert low <= start.offset <= high
    if "recreated" in start.remark:
        assert start.offset == low
        assert ids == ("id", "new") or end >= high
    elif start.offset != end + 1:
        assert start.is_loss
        assert start.offset == (low if end + 1 < low else high)
