"""What the next owner makes of a batch that a former one left: kept whole, or undone whole."""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.catalog.registrar import Registrar
from app.delivery.assignment import Assignment
from app.delivery.member import Member
from app.errors import RetryableError
from app.journal.journal import FencedError
from app.journal.recovery import roll_forward
from app.kafka.questions import PartitionOffsets
from app.model import DataFile, TopicPartition
from app.table.existing_table import TableLocation
from tests.fakes.memory_catalog import MemoryCatalog
from tests.fakes.moody_store import MoodyStore
from tests.support.batches import spec
from tests.support.world import FORMER, OURS, P0, P1, THEIRS, THIRD, World, file, intent, key_of, through

HOUR = 3600
DAY = 24 * HOUR
REFUSED = RetryableError("registering files", "503")


# --- kept or undone -------------------------------------------------------------------------------------------------


def test_a_batch_that_is_all_there_is_registered_and_kept(world: World) -> None:
    world.begun(tps=[P0, P1], end=4).intend(intent("1", "2", ends={P0: 9, P1: 7}, also=["letter"]))
    world.store_files("1", "2", "letter")
    world.claimed(tps=[P0, P1])
    assert world.registered == [[key_of("1"), key_of("2")]]
    assert (world.log().state, world.log().objects, world.log().closed) == ("done", (), True)
    assert [each.end for each in world.log(THEIRS).partitions] == [9, 7]
    assert world.rolled_back(THEIRS) == []
    assert all(world.has(name) for name in ("1", "2", "letter"))


def test_a_batch_is_written_as_kept_before_anything_is_registered_and_as_done_after_it(world: World) -> None:
    world.begun().intend(intent("1"))
    world.store_files("1")
    world.catalog_errors = [REFUSED]
    with pytest.raises(RetryableError):
        world.claimed()
    assert (world.log().state, world.end(), world.log().files) == ("kept", 9, (file("1"),))
    assert world.any_claim() is not None
    world.claimed()
    assert (world.log().state, world.end(THEIRS)) == ("done", 9)
    assert world.registered == [[key_of("1")]]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_batch_that_the_catalog_has_is_settled_without_its_files_which_engines_may_have_replaced(
    world: World, is_kept: bool
) -> None:
    world.begun(end=4).intend(intent("1"))
    if is_kept:
        world.store_files("1")
        world.catalog_errors = [REFUSED]
        with pytest.raises(RetryableError):
            world.claimed()
        world.store.delete(key_of("1"))
    world.is_in_catalog = True
    world.claimed()
    assert (world.log().state, world.end(THEIRS)) == ("done", 9)
    assert (world.registered, world.rolled_back(THEIRS)) == ([], [])


@pytest.mark.parametrize("missing", ["1", "2"])
def test_a_batch_of_which_a_file_is_missing_is_undone(world: World, missing: str) -> None:
    world.begun(tps=[P0, P1], end=4).intend(intent("1", "2", ends={P0: 9, P1: 7}, also=["letter"]))
    world.store_files(*{"1", "2", "letter"} - {missing})
    world.claimed(tps=[P0, P1])
    assert world.registered == []
    assert (world.log().state, world.log().objects) == ("done", ())
    assert [each.end for each in world.log(THEIRS).partitions] == [4, 4]
    assert world.rolled_back(OURS) == world.rolled_back(THEIRS) == [key_of("1"), key_of("2"), key_of("letter")]
    world.upload_late("1", "2", "letter")
    assert not any(world.has(name) for name in ("1", "2", "letter"))


def test_a_batch_whose_dead_letter_was_cleaned_away_is_kept(world: World) -> None:
    """It was there before the last data file."""
    world.begun(end=4).intend(intent("1", "2", end=9, also=["letter", "index"]))
    world.store_files("1", "2")
    world.claimed()
    assert world.registered == [[key_of("1"), key_of("2")]]
    assert (world.end(THEIRS), world.rolled_back(THEIRS)) == (9, [])
    assert world.has("1")


@pytest.mark.parametrize("body", [b"", b"012345678", b"0123456789+"])
def test_a_file_of_another_size_is_missing(world: World, body: bytes) -> None:
    world.begun().intend(intent("1", "2"))
    world.store_files("1")
    world.store_files("2", body=body)
    world.claimed()
    assert world.registered == []
    assert world.end(THEIRS) == -1
    assert not world.has("1")
    assert not world.has("2")


def test_a_file_that_an_old_listing_lacks_is_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a share, replicas on other machines may see what was there a minute ago."""
    world.begun().intend(intent("1"))
    world.store_files("1")
    monkeypatch.setattr(world.store, "list", lambda _: iter(()))
    world.claimed()
    assert world.registered == [[key_of("1")]]
    assert world.has("1")


def test_a_batch_of_dead_letters_alone_is_kept_or_undone_too(world: World) -> None:
    world.begun().intend(intent(end=3, also=["letter"]))
    world.store_files("letter", body=b"of any size")
    owner = world.claimed()
    assert world.end(THEIRS) == 3
    assert world.has("letter")
    owner.intend(intent(batch=1, end=5, also=["letter2"]))
    world.claimed(THIRD)
    assert world.end(THIRD) == 3
    assert world.rolled_back(THIRD) == [key_of("letter2")]


# --- what Kafka cannot give again -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(8, 99), (10, 99), (0, 0), (0, 7)], ids=["tail", "none", "cut", "head"])
def test_files_whose_rows_are_gone_from_kafka_stay_though_others_are_missing(
    world: World, low: int, high: int, caplog: pytest.LogCaptureFixture
) -> None:
    batch = intent("1", "2", "3", end=9, also=["letter", "lost letter"])
    world.begun(end=4).intend(batch)
    world.store_files("1", "3", "letter")
    world.store_files("2", body=b"half")
    world.kafka.offsets = PartitionOffsets(None, low, high, "id")
    world.claimed()
    assert world.registered == [[key_of("1"), key_of("3")]]
    assert (world.end(), world.rolled_back(THEIRS)) == (9, [key_of("2"), key_of("lost letter")])
    assert all(world.has(name) for name in ("1", "3", "letter"))
    world.upload_late("2", "lost letter")
    assert not world.has("2"), "it would be in the table and not in the catalog"
    (text,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "3 rows" in text


@pytest.mark.parametrize("low", [0, 5, 6, 7])
def test_a_batch_is_read_again_where_less_is_lost_by_that(
    world: World, low: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to two of its five records have expired, and the files that are missing have three."""
    world.begun(end=-1).intend(intent("1", "2", end=9, also=["letter", "lost letter"]))
    world.store_files("1", "letter")
    world.kafka.offsets = PartitionOffsets(None, low, 99, "id")
    world.claimed()
    assert world.registered == []
    assert world.end() == -1
    assert not any(world.has(name) for name in ("1", "2", "letter", "lost letter"))
    assert not [record for record in caplog.records if record.levelno == logging.ERROR], "the start says what is lost"


@pytest.mark.parametrize(
    "gone",
    [
        PartitionOffsets(None, 7, 99, "id"),
        PartitionOffsets(None, 0, 99, "another"),
        PartitionOffsets(None, 0, 99, "id", "other cluster"),
    ],
    ids=["expired", "recreated", "moved"],
)
def test_a_batch_is_kept_with_what_is_there_if_one_of_its_partitions_cannot_be_read_again(
    world: World, gone: PartitionOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files hold rows of both: none of them can be deleted without a loss."""
    world.begun(tps=[P0, P1], end=4, cluster_id="cluster").intend(intent("1", "2", ends={P0: 9, P1: 8}))
    world.kafka.offsets = PartitionOffsets(None, 0, 99, "id", "cluster")
    world.store_files("1")
    world.kafka.offsets_of[P1] = gone
    world.claimed(tps=[P0, P1])
    assert world.registered == [[key_of("1")]]
    assert [each.end for each in world.log().partitions] == [9, 8]
    assert world.has("1")
    (text,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "sensors[0] 5 to 9, sensors[1] 5 to 8" in text


def test_a_batch_is_undone_though_one_of_its_topics_was_deleted(world: World) -> None:
    """The other topic's records are read again; the deleted one may be back soon."""
    world.begun(tps=[P0, P1], end=4).intend(intent("1", "2", ends={P0: 9, P1: 8}))
    world.store_files("1")
    world.kafka.id_errors = [RetryableError("asking Kafka for the id", "Unknown topic or partition").of("topic")]
    world.claimed(tps=[P1])
    assert world.registered == []
    assert world.end(THEIRS, P1) == 4
    assert not world.has("1")


def test_a_batch_is_undone_though_one_of_its_topics_was_recreated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the former topic are lost, and none of the other one."""
    other = TopicPartition("orders", 0)
    world.begun(tps=[P0, other], end=4).intend(intent("1", "2", ends={P0: 9, other: 99}))
    world.store_files("1")
    monkeypatch.setattr(world.kafka, "topic_id", lambda topic: "another" if topic == "orders" else "id")
    world.claimed(tps=[P0])
    assert world.registered == []
    assert world.end(THEIRS) == 4
    assert not world.has("1")


@pytest.mark.parametrize(
    "now", [PartitionOffsets(None, 0, 99, "another"), PartitionOffsets(None, 0, 99, "id", "other cluster")]
)
def test_a_batch_is_settled_though_the_topic_has_fewer_partitions_since_it_was_recreated(
    world: World, monkeypatch: pytest.MonkeyPatch, now: PartitionOffsets
) -> None:
    world.begun(tps=[P0, P1], end=4, cluster_id="cluster").intend(intent("1", "2", ends={P0: 9, P1: 8}))
    world.store_files("1")
    world.kafka.offsets = now

    def of(tp: TopicPartition) -> PartitionOffsets:
        if tp == P1:
            raise RetryableError(f"asking Kafka for the offsets of {tp}", "Local: Unknown partition")
        return now

    monkeypatch.setattr(world.kafka, "of", of)
    world.takeover(follow_offsets="it has moved").claim([P0], world.own_log(THEIRS))
    assert world.registered == [[key_of("1")]]
    assert world.end() == 9


def test_a_partition_with_late_records_alone_does_not_disturb_a_batch_that_kafka_cannot_give_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Records of a buffered join lie before the partition's end: the batch has no offsets of it to read again."""
    world.begun(tps=[P0, P1], end=9).intend(intent("1", "2", ends={P0: 19, P1: 5}))
    world.store_files("1")
    world.kafka.offsets = PartitionOffsets(None, 17, 99, "id")
    world.claimed(tps=[P0, P1])
    assert [each.end for each in world.log().partitions] == [19, 9]
    assert world.registered == [[key_of("1")]]
    assert "sensors[0] 15 to 19" in caplog.text


@pytest.mark.parametrize("low", [7, 10])
def test_a_batch_of_which_nothing_is_there_is_undone_whatever_kafka_has(world: World, low: int) -> None:
    world.begun(end=4).intend(intent("1", "2", end=9, also=["letter"]))
    world.kafka.offsets = PartitionOffsets(None, low, 99, "id")
    world.claimed()
    assert world.registered == []
    assert world.end() == 4


@pytest.mark.parametrize(("low", "end"), [(6, 4), (7, 9), (10, 9)])
def test_dead_letters_alone_are_kept_if_less_is_lost_by_that(world: World, low: int, end: int) -> None:
    world.begun(end=4).intend(intent("1", end=9, also=["letter"]))
    world.store_files("letter")
    world.kafka.offsets = PartitionOffsets(None, low, 99, "id")
    world.claimed()
    assert world.registered in ([], [[]])
    assert world.end() == end
    assert world.has("letter") == (end == 9)


def test_kafka_that_does_not_answer_leaves_the_batch_as_it_is(world: World) -> None:
    world.begun().intend(intent("1", "2"))
    world.store_files("1")
    world.kafka.errors = [RetryableError("asking Kafka", "no answer")]
    with pytest.raises(RetryableError):
        world.claimed()
    assert world.log().state == "pending"
    assert world.has("1")


def test_a_batch_once_kept_is_kept_whatever_the_next_claim_sees(world: World) -> None:
    """The one that decided may have registered it already, and its question to Kafka may get another answer."""
    world.begun(end=4).intend(intent("1", "2", end=9))
    world.store_files("1")
    world.kafka.offsets = PartitionOffsets(None, 10, 99, "id")
    world.catalog_errors = [REFUSED]
    with pytest.raises(RetryableError):
        world.claimed()
    world.kafka.offsets = PartitionOffsets(None, 0, 99, "id")
    world.claimed(THIRD)
    assert world.registered == [[key_of("1")]]
    assert (world.end(THIRD), world.rolled_back(THIRD)) == (9, [key_of("2")])
    assert world.has("1")


# --- what was undone ------------------------------------------------------------------------------------------------


def test_a_name_is_filled_once_however_many_claims_come_after(world: World) -> None:
    """A loop of crashes makes the list grow."""
    filled: list[str] = []

    def count(key: str) -> None:
        filled.append(key)

    world.store.refuse_removal = count
    owner = world.begun()
    for number in range(5):
        owner.intend(intent(f"{number}-a", f"{number}-b", batch=number))
        owner = world.claimed(f"{number:08x}")
        owner.advance({P0: number * 10})
    assert len(world.rolled_back(owner.token)) == len(filled) == len(set(filled)) == 10


def test_placeholders_are_deleted_after_an_hour_by_whoever_is_the_owner_and_leave_the_list(world: World) -> None:
    world.begun().intend(intent("1"))
    owner = world.claimed()
    owner.sweep(is_last=True)
    assert world.is_filled("1"), "also where the process ends"
    world.epoch.advance(HOUR - 10)
    owner.intend(intent("2", batch=1))
    heir = world.claimed(THIRD)
    assert world.rolled_back(THIRD) == [key_of("1"), key_of("2")]
    world.epoch.advance(9)
    heir.sweep()
    assert world.is_filled("1")
    world.epoch.advance(1)
    for _ in range(3):
        heir.sweep()
    assert world.store.deleted == [key_of("1")]
    heir.advance({P0: 99})
    assert world.rolled_back(THIRD) == [key_of("2")]


def test_what_was_undone_an_hour_ago_gets_no_placeholder_which_a_later_owner_has_swept_already(world: World) -> None:
    world.begun().intend(intent("1"))
    owner = world.own_log(THEIRS)
    world.takeover().claim((P0,), owner)  # it dies here
    world.epoch.advance(HOUR)
    slow = world.claimed(THIRD)
    assert not world.is_filled("1")
    slow.advance({P0: 99})
    assert world.rolled_back(THIRD) == []


@pytest.mark.parametrize("why", ["the assignment has ended", "another member has closed the log"])
def test_what_is_another_member_s_by_now_is_left_to_it(world: World, why: str) -> None:
    member, assignment = claimed_by_a_member(world)
    if why == "the assignment has ended":
        assignment.end()
    else:
        world.claimed("another")
        with pytest.raises(FencedError):
            assignment.log.verify()
    world.epoch.advance(HOUR)
    member.sweep()
    assert world.store.deleted == []


def claimed_by_a_member(world: World) -> tuple[Member, Assignment]:
    """Its claim has rolled back a batch that a former owner has left incomplete."""
    world.begun(FORMER).intend(intent("1", "2"))
    world.store_files("1")
    member = world.new_member()
    assignment = member.begin([P0])
    through(assignment)
    return member, assignment


def test_what_expired_and_arrives_while_it_is_looked_for_is_no_loss(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begun(end=4).intend(intent("1", "2", end=9))
    world.store_files("1")

    def of(_: TopicPartition) -> PartitionOffsets:
        world.store_files("2")
        return PartitionOffsets(None, 7, 99, "id")

    monkeypatch.setattr(world.kafka, "of", of)
    world.claimed()
    assert world.registered == [[key_of("1"), key_of("2")]]
    assert not [record for record in caplog.records if record.levelno == logging.ERROR]


# --- the same in a store without conditional writes -----------------------------------------------------------------


def test_without_conditional_writes_files_are_deleted_and_late_uploads_too_by_the_sweeps(world: World) -> None:
    """After 10 s, 30 s, a minute, and then every ten minutes for a day."""
    world.store.refuses_overwrites = False
    world.begun().intend(intent("1"))
    owner = world.claimed()
    assert world.store.deleted == [key_of("1")]
    begin, due = world.epoch.now, []
    for second in (9, 10, 29, 30, 59, 60, 659, 660, 1_259, 1_260, DAY, DAY + 600):
        world.epoch.now = begin + second
        world.store_files("1")
        owner.sweep()
        if not world.has("1"):
            due.append(second)
        owner.advance({P0: second})
    assert due == [10, 30, 60, 660, 1_260, DAY]
    assert world.rolled_back(THEIRS) == []


def test_without_conditional_writes_a_late_upload_is_deleted_at_the_stop(world: World) -> None:
    """The member has left the group by then."""
    world.store.refuses_overwrites = False
    member, assignment = claimed_by_a_member(world)
    assignment.end()
    world.store_files("2")
    member.stop()
    assert not world.has("2")


# --- what is registered again ---------------------------------------------------------------------------------------

KEY = "data/t/p=a/data_1.parquet"


class Registration:
    def __init__(self, tmp_path: Path) -> None:
        self.lake = tmp_path
        self.catalog = MemoryCatalog()
        self.store = MoodyStore(tmp_path)
        registrar = Registrar(self.catalog, TableLocation(self.store.uri, "data/t"), spec("p"), "sensors", None)
        self.register = partial(roll_forward, self.store, registrar, map)

    def file(self, *values: int) -> DataFile:
        path = self.lake / KEY
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"v": pa.array(values, pa.int64()), "w": [0.5] * len(values)}), path)
        size = path.stat().st_size
        return DataFile(KEY, {"p": "a"}, len(values), size)


def test_a_file_is_registered_with_what_the_journal_and_its_footer_say(tmp_path: Path) -> None:
    bench = Registration(tmp_path)
    file = bench.file(3, 1, 2)
    bench.register([file], ())
    ((registered,),) = bench.catalog.requests
    expected = KEY, f"{bench.store.uri}/{KEY}", file.size, 3, {"p": "a"}
    assert (registered.key, registered.uri, registered.size, registered.rows, registered.partition_values) == expected
    assert registered.last_modified.timestamp() == pytest.approx((tmp_path / KEY).stat().st_mtime)
    assert registered.footer == pq.read_metadata(tmp_path / KEY)


def test_a_file_that_is_gone_meanwhile_registers_none(tmp_path: Path) -> None:
    bench = Registration(tmp_path)
    file = bench.file(1)
    gone = replace(file, key="data/t/p=a/data_2.parquet")
    with pytest.raises(RetryableError, match=r"registering file://.*data_2.parquet: the file existed .* restore it"):
        bench.register([file, gone], ())
    assert bench.catalog.requests == []
