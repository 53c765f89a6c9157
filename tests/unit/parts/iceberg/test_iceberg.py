"""What a table of an Iceberg catalog has after batches, repeated and at the same time."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServiceUnavailableError,
)
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StringType

from app.catalog.base import RestartError
from app.errors import ConfigError, FatalError, RetryableError
from app.model import Mark, TopicPartition
from app.parts.iceberg import table as iceberg
from app.parts.iceberg.entries import prepare
from app.parts.iceberg.store_io import ADDRESS, OWNS, STORE, StoreIO
from app.parts.iceberg.table_metadata import are_in, properties_of
from tests.fakes.canned_server import Answer, CannedServer
from tests.support.batches import spec
from tests.support.waiting import PATIENCE, join, wait_for
from tests.unit.parts.iceberg.iceberg_bench import EVERY_TYPE, P0, P1, ROOT, WANTED, IcebergBench, commits, marks

# --- the table --------------------------------------------------------------------------------------------------------


def test_two_members_create_one_table_where_the_files_are_with_its_partitions(bench: IcebergBench) -> None:
    one, other = bench.member(), bench.member()
    known = other.table()
    assert known is not None
    assert (known.location, known.partition_spec) == (f"{bench.store.uri}/{ROOT}", ("place",))
    assert one.create_table(f"{bench.store.uri}/{ROOT}", WANTED) == known


def test_files_bring_their_columns_and_types(bench: IcebergBench) -> None:
    files = [bench.file("one", EVERY_TYPE), bench.file("two", EVERY_TYPE, place=None)]
    bench.member().add_files(files, "readings", marks(9))
    found = {str(row["place"]): row for row in bench.rows() if row["n"] is not None}
    assert set(found) == {"Rome", "None"}
    expected = {
        name: (array.to_pylist() if isinstance(array, pa.Array) else array)[0] for name, array in EVERY_TYPE.items()
    }
    assert {name: value for name, value in found["Rome"].items() if name != "place"} == expected


def test_later_files_add_columns_and_fields(bench: IcebergBench) -> None:
    member = bench.member()
    member.add_files([bench.file("one", {"a": [1], "s": [{"x": 1}]})], "readings", marks(0))
    member.add_files([bench.file("two", {"b": ["new"], "s": [{"x": 2, "y": 3}]})], "readings", marks(1))
    assert bench.rows("a", "b", "s") == [
        {"a": 1, "b": None, "s": {"x": 1, "y": None}},
        {"a": None, "b": "new", "s": {"x": 2, "y": 3}},
    ]


def test_two_members_add_the_same_column_at_once(bench: IcebergBench, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = bench.member(), bench.member()
    one.add_files([bench.file("zero", {"a": [0]})], "readings", marks(0))
    other.add_files([bench.file("one", {"a": [1]})], "readings", marks(0, tps=[P1]))
    late = bench.file("late", {"a": [2], "new": [1]})

    def quicker(count: int) -> None:
        if count == 1:
            other.add_files([bench.file("quick", {"a": [3], "new": [2]})], "readings", marks(1, tps=[P1]))

    commits(monkeypatch, before=quicker)
    one.add_files([late], "readings", marks(1))
    assert [row["new"] for row in bench.rows("a", "new")] == [None, None, 1, 2]


def test_a_table_of_another_writer_is_continued(bench: IcebergBench) -> None:
    place = NestedField(1, "place", StringType(), required=False)
    number = NestedField(2, "n", LongType(), required=False)
    there = bench.create(Schema(place, number), PartitionField(1, 1000, IdentityTransform(), "place"))
    there.append(pa.table({"place": ["Oslo"], "n": [1]}))
    bench.member().add_files([bench.file("one", {"n": [2]})], "readings", marks(0))
    assert bench.rows("place", "n") == [{"place": "Oslo", "n": 1}, {"place": "Rome", "n": 2}]


def test_files_with_nan_are_found_by_every_comparison(bench: IcebergBench) -> None:
    bench.member().add_files([bench.file("one", {"x": [1.0, float("nan"), 500.0]})], "readings", marks(0))
    assert bench.table.scan("x > 100 and x < 1000").to_arrow().num_rows == 1


# --- exactly once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_batch_that_is_registered_again_is_there_once(bench: IcebergBench, is_compacted: bool) -> None:
    file = bench.file("one", {"n": [1]})
    bench.member().add_files([file], "readings", marks(9))
    if is_compacted:
        table = bench.table
        table.overwrite(table.scan().to_arrow())
    bench.member().add_files([file], None, marks(9))
    assert len(bench.rows()) == 1


@pytest.mark.parametrize("lost", [CommitStateUnknownException("lost"), ServiceUnavailableError("away")])
@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_a_lost_answer_neither_loses_nor_doubles(
    bench: IcebergBench, monkeypatch: pytest.MonkeyPatch, lost: Exception, is_done: bool
) -> None:
    member, file = bench.member(), bench.file("one", {"n": [1]})

    def fail(count: int) -> None:
        if count == 1:
            raise lost

    commits(monkeypatch, **{"after" if is_done else "before": fail})
    with pytest.raises(RetryableError):
        member.add_files([file], "readings", marks(9))
    member.add_files([file], "readings", marks(9))
    assert len(bench.rows()) == 1


def test_a_refusal_of_a_commit_that_is_in_the_table_leaves_its_metadata_there(
    bench: IcebergBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that has lost the answer sends the request again, and the catalog refuses the repetition."""
    member = bench.member()

    def refuse(_: int) -> None:
        raise CommitFailedException("409")

    commits(monkeypatch, after=refuse)
    for number in range(3):
        member.add_files([bench.file(str(number), {"n": [number]})], "readings", marks(number))
    assert [row["n"] for row in bench.rows("n")] == [0, 1, 2]


def test_missing_metadata_is_named_with_the_last_whole_snapshot(bench: IcebergBench) -> None:
    bench.fill()
    whole, second, newest = bench.table.snapshots()
    [manifest] = [each for each in second.manifests(bench.table.io) if each.added_snapshot_id == second.snapshot_id]
    for gone in (manifest.manifest_path, newest.manifest_list):
        Path(gone.removeprefix("file://")).unlink()
    with pytest.raises(FatalError, match=rf"metadata/snap-{newest.snapshot_id}.*is missing.*{whole.snapshot_id}"):
        bench.member().add_files([bench.file("next", {"n": [9]})], "readings", marks(9))


def test_a_member_that_wakes_up_late_adds_nothing(bench: IcebergBench, monkeypatch: pytest.MonkeyPatch) -> None:
    zombie, owner = bench.member(), bench.member()
    zombie.add_files([bench.file("zero", {"n": [0]})], "readings", marks(9))
    file = bench.file("one", {"n": [1]})

    def taken_over(count: int) -> None:
        if count == 1:
            owner.add_files([file], None, marks(19))
            owner.add_files([bench.file("two", {"n": [2]})], "readings", marks(29))

    commits(monkeypatch, before=taken_over)
    zombie.add_files([file], "readings", marks(19))
    assert [row["n"] for row in bench.rows("n")] == [0, 1, 2]


def test_offsets_of_a_topic_that_was_created_again_are_others(bench: IcebergBench) -> None:
    member = bench.member()
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(99, series="old"))
    member.add_files([bench.file("two", {"n": [2]})], "readings", marks(9, series="new"))
    member.add_files([bench.file("one", {"n": [1]})], None, marks(99, series="old"))
    assert [row["n"] for row in bench.rows("n")] == [1, 2]


def test_a_batch_of_several_partitions_is_there_as_soon_as_one_has_moved_on(bench: IcebergBench) -> None:
    both = bench.file("both", {"n": [1, 2]})
    bench.member().add_files([both], "readings", marks(9, tps=[P0, P1]))
    bench.member().add_files([bench.file("next", {"n": [3]})], "readings", marks(19))
    bench.member().add_files([both], None, marks(9, tps=[P0, P1]))
    assert len(bench.rows()) == 3


# --- other engines change the table -----------------------------------------------------------------------------------


def change(bench: IcebergBench, *, promises: bool = True) -> Any:
    return bench.table.update_schema(allow_incompatible_changes=not promises)


@pytest.mark.parametrize("is_new", [False, True], ids=["same member", "new member"])
def test_a_renamed_column_and_field_keep_their_values_and_get_those_of_every_name(
    bench: IcebergBench, is_new: bool
) -> None:
    member = bench.member()
    site = pa.array([[{"floor": 1}]], pa.list_(pa.struct([("floor", pa.int64())])))
    room = pa.array([{"x": {"seats": 3}}], pa.map_(pa.string(), pa.struct({"seats": pa.int64()})))
    member.add_files([bench.file("one", {"temp": [1.5], "sites": site, "rooms": room})], "readings", marks(0))
    with change(bench) as schema:
        schema.rename_column("rooms.value.seats", "chairs")
        schema.rename_column("temp", "temperature")
        schema.rename_column("sites.element.floor", "level")
        schema.rename_column("place", "city")
        schema.move_first("temp")
    member = bench.member() if is_new else member
    columns = {"temp": [2.5], "sites": site, "rooms": room, "new": [1]}
    member.add_files([bench.file("two", columns)], "readings", marks(1))
    member.add_files([bench.file("three", {"temperature": [3.5]}, None)], "readings", marks(2))
    assert [field.name for field in bench.table.schema().fields] == ["temperature", "city", "sites", "rooms", "new"]
    assert [(row["temperature"], row["city"]) for row in bench.rows()] == [(1.5, "Rome"), (2.5, "Rome"), (3.5, None)]
    [second] = bench.table.scan("temperature > 2 and city = 'Rome'").to_arrow().to_pylist()
    assert (second["sites"], second["rooms"]) == ([{"level": 1}], [("x", {"chairs": 3})])
    known = member.check()
    assert known is not None
    assert known.partition_spec == ("place",)
    rows = pa.table({"temperature": [1.5], "sites": site, "rooms": room})
    columns_of_files = pa.schema({"temp": pa.float64(), "sites": site.type, "rooms": room.type})
    assert known.as_known(rows, known.partition_spec).schema == columns_of_files
    with pytest.raises(ConfigError, match="'city': it is another name of the partition column place"):
        known.as_known(pa.table({"city": ["Rome"]}), known.partition_spec)


def test_a_dropped_column_and_field_stay_dropped(bench: IcebergBench, caplog: pytest.LogCaptureFixture) -> None:
    member = bench.member()
    columns = {"n": [1], "secret": ["old"], "site": [{"floor": 1, "code": 7}]}
    member.add_files([bench.file("one", columns)], "readings", marks(0))
    with change(bench) as schema:
        schema.delete_column("secret")
        schema.delete_column("site.code")
    member.add_files([bench.file("two", columns)], "readings", marks(1))
    member.add_files([bench.file("three", columns | {"new": [1]})], "readings", marks(2))
    assert bench.rows("n", "site") == [{"n": 1, "site": {"floor": 1}}] * 3
    assert [field.name for field in bench.table.schema().fields] == ["place", "n", "site", "new"]
    assert [
        record.getMessage().count("site.code was dropped") for record in caplog.records if record.levelname == "WARNING"
    ] == [1]


@pytest.mark.parametrize(
    ("before", "kind", "wider"),
    [
        (pa.int32(), LongType(), pa.int64()),
        (pa.float32(), DoubleType(), pa.float64()),
        (pa.decimal128(4, 2), DecimalType(30, 2), pa.decimal128(30, 2)),
        (pa.decimal128(12, 2), DecimalType(30, 2), pa.decimal128(30, 2)),
    ],
    ids=str,
)
def test_files_with_the_former_type_of_a_column_are_read_in_its_new_one(
    bench: IcebergBench, before: pa.DataType, kind: Any, wider: pa.DataType
) -> None:
    member = bench.member()
    values = pa.array([1, None, 3]).cast(wider).cast(before)
    member.add_files([bench.file("one", {"n": values})], "readings", marks(0))
    with change(bench) as schema:
        schema.update_column("n", kind)
    member.add_files([bench.file("two", {"n": values, "new": [1, 2, 3]})], "readings", marks(1))
    assert bench.table.scan("n > 1").to_arrow()["n"].cast(wider) == pa.chunked_array([values[2:].cast(wider)] * 2)


def test_a_column_that_somebody_made_required_ends_the_work_and_stays_required(bench: IcebergBench) -> None:
    member = bench.member()
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    with change(bench, promises=False) as schema:
        schema.update_column("n", required=True)
    member.add_files([bench.file("two", {"n": [1]})], "readings", marks(1))  # does not look again before
    with pytest.raises(ConfigError, match="requires values in n"):
        member.add_files([bench.file("three", {"m": [2]})], "readings", marks(2))
    assert bench.table.schema().find_field("n").required


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_table_that_was_dropped_ends_the_process_and_the_next_one_begins(
    bench: IcebergBench, is_made_anew: bool
) -> None:
    member = bench.member()
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(9))
    load_catalog("default", **bench.properties).drop_table("lake.readings")
    if is_made_anew:
        bench.member()
    with pytest.raises(FatalError, match="A restart creates it") as caught:
        member.add_files([bench.file("two", {"n": [2]})], "readings", marks(19))
    assert caught.value.exit_code == 75
    bench.member().add_files([bench.file("two", {"n": [2]})], "readings", marks(19))
    assert [row["n"] for row in bench.rows("n")] == [2]


# --- errors and limits ------------------------------------------------------------------------------------------------


def test_the_library_never_commits_again_by_itself(bench: IcebergBench) -> None:
    member = bench.member()
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    assert "commit.retry.num-retries" not in bench.table.properties


@pytest.mark.parametrize("wanted", [None, "vended-credentials"])
def test_credentials_are_asked_for_only_where_the_user_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str | None
) -> None:
    if wanted:
        monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__HEADER__X_ICEBERG_ACCESS_DELEGATION", wanted)
    unknown = Answer(404, b'{"error": {"message": "no table", "type": "NoSuchTableException", "code": 404}}')
    with CannedServer(Answer(body=b'{"defaults": {}, "overrides": {}}'), unknown) as server:
        IcebergBench(tmp_path, {"type": "rest", "uri": server.url}).new_member().check()
    assert {request.headers.get("x-iceberg-access-delegation") for request in server.requests} == {wanted}


def test_a_partition_has_a_name_of_its_own_where_its_column_has_other_letters(tmp_path: Path) -> None:
    bench = IcebergBench(tmp_path, partition="größe")
    bench.member().add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    assert [field.name for field in bench.table.spec().fields] == ["gr_xf6_xdfe"]
    assert bench.rows("größe") == [{"größe": "Rome"}]


def test_a_table_without_partitions_is_read(bench: IcebergBench) -> None:
    member = bench.member(wanted=spec())
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    member.add_files([bench.file("two", {"n": [2], "m": ["new"]})], "readings", marks(1))
    assert bench.rows("n", "m") == [{"n": 1, "m": None}, {"n": 2, "m": "new"}]


def test_partition_values_do_not_depend_on_the_tables_metrics(bench: IcebergBench) -> None:
    member = bench.member()
    with bench.table.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.default": "none"})
    member.add_files([bench.file("one", {"n": [1]}), bench.file("two", {"n": [2]}, None)], "readings", marks(0))
    assert bench.table.scan("place = 'Rome'").to_arrow()["n"].to_pylist() == [1]
    assert bench.table.scan("place is null").to_arrow()["n"].to_pylist() == [2]


def test_a_try_behind_its_deadline_shares_no_table_with_the_next_one(
    bench: IcebergBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = bench.member()
    member.add_files([bench.file("zero", {"n": [0]})], "readings", marks(9))
    tries = list[threading.Thread]()
    second = threading.Event()

    def slow(*of: Any) -> None:
        tries.append(threading.current_thread())
        if len(tries) == 1:
            wait_for(second, "the second try has begun")
        else:
            second.set()
            join(tries[0])
        prepare(*of)

    monkeypatch.setattr("app.parts.iceberg.table.prepare", slow)
    monkeypatch.setattr(iceberg, "DEADLINE_SECONDS", 0.1)
    monkeypatch.setattr(iceberg, "_SECONDS_A_FILE", 0.0)
    file = bench.file("one", {"n": [1]})
    with pytest.raises(RetryableError, match="no answer in time"):
        member.add_files([file], "readings", marks(19))
    monkeypatch.setattr(iceberg, "DEADLINE_SECONDS", PATIENCE)
    member.add_files([file], "readings", marks(19))
    assert [row["n"] for row in bench.rows("n")] == [0, 1]


def test_the_table_knows_a_batch_whose_files_engines_have_replaced(bench: IcebergBench) -> None:
    member = bench.member()
    member.add_files([bench.file("one", {"n": [1]})], "readings", marks(9))
    assert (member.has(marks(9)), member.has(marks(10)), member.has([])) == (True, False, False)


def test_a_column_that_somebody_added_with_another_type_is_named(bench: IcebergBench) -> None:
    member = bench.member()
    with bench.table.update_schema() as schema:
        schema.add_column("n", StringType())
    with pytest.raises(FatalError, match=r"n.*drop it in the table"):
        member.add_files([bench.file("one", {"n": [1]})], "readings", marks(0))


def test_groups_and_topics_with_dots_have_properties_of_their_own() -> None:
    topic = TopicPartition("b.c", 0), TopicPartition("c", 0)
    one, other = (properties_of({}, group, [Mark(tp, "", 9)]) for group, tp in zip(("a", "a.b"), topic, strict=True))
    assert one.keys() != other.keys()


def test_a_damaged_mark_is_named() -> None:
    with pytest.raises(FatalError, match=r"property lake\.group\.readings\.0"):
        are_in({"lake.group.readings.0": "ten"}, "group", marks(9))


def test_a_catalog_that_never_answers_ends_the_process(bench: IcebergBench, monkeypatch: pytest.MonkeyPatch) -> None:
    member, wake = bench.member(), threading.Event()
    monkeypatch.setattr(iceberg, "DEADLINE_SECONDS", 0.02)
    monkeypatch.setattr(iceberg, "_SECONDS_A_FILE", 0.0)
    monkeypatch.setattr(iceberg, "_MOST_SILENT", 3)
    commits(monkeypatch, before=lambda _: wait_for(wake, "the test is over"))
    file = bench.file("one", {"n": [1]})
    for _ in range(3):
        with pytest.raises(RetryableError):
            member.add_files([file], "readings", marks(9))
    with pytest.raises(RestartError) as caught:
        member.add_files([file], "readings", marks(9))
    wake.set()
    assert caught.value.exit_code == 75


# --- metadata in the store --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["s3://lake/t/m.avro", "s3a://lake/t/m.avro"])
def test_metadata_is_an_object_of_the_store_whatever_the_scheme(bench: IcebergBench, location: str) -> None:
    files = StoreIO({STORE: bench.store, ADDRESS: "s3://lake", OWNS: lambda _: True})
    with files.new_output(location).create() as stream:
        stream.write(b"content")
    assert bench.store.read("t/m.avro").body == b"content"  # type: ignore[union-attr]
    found = files.new_input(location)
    assert (found.exists(), len(found), found.open().read()) == (True, 7, b"content")
    files.delete(location)
    assert found.exists()
    missing = files.new_input("s3://lake/t/v.metadata.json")
    with pytest.raises(FileNotFoundError):
        missing.open()


def test_a_folder_of_the_machine_is_known_by_both_forms_of_its_address(bench: IcebergBench) -> None:
    files = StoreIO({STORE: bench.store, ADDRESS: bench.store.uri, OWNS: lambda _: True})
    bench.store.overwrite("t/m.json", b"{}")
    assert files.new_input(bench.store.uri.replace("file:///", "file:/") + "/t/m.json").exists()


@pytest.mark.parametrize("location", ["s3://other/m.json", "s3://lake/../other/m.json"])
def test_metadata_in_another_store_is_refused(bench: IcebergBench, location: str) -> None:
    with pytest.raises(FatalError, match=f"{location}: it is not in s3://lake"):
        StoreIO({STORE: bench.store, ADDRESS: "s3://lake", OWNS: lambda _: True}).new_input(location)
