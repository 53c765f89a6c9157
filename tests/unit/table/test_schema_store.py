"""One schema for a table, whoever writes to it, on a real folder."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.errors import ConfigError, ConnectorError, FatalError, RetryableError
from app.table.schema import EMPTY, TableSchema
from app.table.schema_store import SchemaStore
from tests.fakes.moody_store import MoodyStore

ROOT = "lake/t"
KEY = f"{ROOT}/_journal/schema.json"
BIGINT = TableSchema({"a": pa.int64()})
DOUBLE = TableSchema({"a": pa.float64()})
TEXT = TableSchema({"a": pa.string()})
OTHER = TableSchema({"b": pa.string()})


@pytest.fixture
def store(tmp_path: Path) -> MoodyStore:
    store = MoodyStore(tmp_path / "store")
    store.connect("")
    return store


def opened(store: MoodyStore, zone: str = "UTC", **types: pa.DataType) -> SchemaStore:
    keeper = SchemaStore(store, ROOT, types, time_zone=zone)
    keeper.open()
    return keeper


def stored(store: MoodyStore) -> TableSchema | None:
    document = store.read(KEY)
    return None if document is None else TableSchema.from_document(json.loads(document.body))


def put_file(store: MoodyStore, tmp_path: Path, key: str, columns: dict[str, Any], age: int = 0) -> None:
    path = tmp_path / "file"
    pq.write_table(pa.table(columns), path)
    store.upload(path, f"{ROOT}/{key}")
    os.utime(tmp_path / "store" / ROOT / key, (1_700_000_000 - age, 1_700_000_000 - age))


def refusals(*errors: ConnectorError | None) -> Any:
    left = list(errors)
    return lambda _: left.pop(0) if left else None


def test_a_schema_is_stored_before_it_is_given_back(store: MoodyStore) -> None:
    keeper = opened(store)
    assert keeper.extend(EMPTY) == keeper.current == EMPTY
    assert stored(store) is None
    assert keeper.extend(OTHER) == OTHER == keeper.current == stored(store) == opened(store).current
    assert list(keeper.extend(BIGINT.merge(OTHER)).columns) == ["b", "a"], "in the order in which they came"
    assert list(opened(store).current.columns) == ["b", "a"]


def test_what_is_covered_already_costs_no_request(store: MoodyStore) -> None:
    keeper = opened(store)
    both = keeper.extend(BIGINT.merge(OTHER))
    store.refuse_small = lambda key: FatalError("asking", key)

    assert keeper.extend(OTHER) == keeper.extend(BIGINT) == keeper.extend(EMPTY) == both


def test_members_that_extend_at_once_agree(store: MoodyStore) -> None:
    first, second, third, fourth = (opened(store) for _ in range(4))

    first.extend(BIGINT)
    second.extend(OTHER)  # begins from an empty table
    third.extend(DOUBLE)
    first.extend(TableSchema({"c": pa.bool_()}))

    expected = TableSchema({"a": pa.float64(), "b": pa.string(), "c": pa.bool_()})
    assert first.current == stored(store) == expected
    assert second.extend(TableSchema({"c": pa.bool_()})) == third.extend(expected) == expected
    assert fourth.extend(TEXT) == expected == fourth.current == stored(store), "the type of the first counts"


@pytest.mark.parametrize("passes", [0, 1, 2], ids=["writing", "reading after a lost race", "writing after it"])
def test_an_outage_leaves_everything_as_it_was_and_can_be_waited_for(store: MoodyStore, passes: int) -> None:
    first, second = opened(store), opened(store)
    if passes:
        first.extend(OTHER)
    away = RetryableError("asking", "the store is away")
    store.refuse_small = refusals(*[None] * passes, away)
    with pytest.raises(RetryableError) as caught:
        second.extend(BIGINT)
    assert caught.value is away
    assert stored(store) == (OTHER if passes else None)
    assert second.extend(BIGINT) == first.current.merge(BIGINT) == stored(store)

    store.refuse_small = refusals(away)
    keeper = SchemaStore(store, ROOT, {})
    with pytest.raises(RetryableError):
        keeper.open()
    keeper.open()
    assert keeper.current == stored(store)


def test_a_table_deleted_meanwhile_gets_its_schema_again(store: MoodyStore) -> None:
    keeper = opened(store)
    keeper.extend(BIGINT)
    store.delete(KEY)

    assert keeper.extend(OTHER) == BIGINT.merge(OTHER) == stored(store)


def test_a_table_recreated_meanwhile_counts_as_it_is_now(store: MoodyStore) -> None:
    keeper = opened(store)
    keeper.extend(TableSchema({"s": pa.struct({"x": pa.int64()}), "a": pa.int64()}))
    store.delete(KEY)
    anew = TableSchema({"s": pa.struct({"y": pa.int64()})})
    opened(store).extend(anew)

    assert keeper.extend(OTHER) == anew.merge(OTHER) == stored(store)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "Expecting value"),
        (b'{"version": 1, "columns": [', "Expecting"),
        (b"\xff\xfe\xfd", "decode"),
        (b"[" * 100_000, "recursion"),
        (b'{"version": 1, "columns": [{"name": "a", "type": "colour"}]}', "'a' has an unknown type.*colour"),
    ],
)
def test_a_schema_that_cannot_be_understood_is_never_guessed(store: MoodyStore, body: bytes, cause: str) -> None:
    store.write(KEY, body, replaces=None)

    with pytest.raises(FatalError, match=f"{KEY}: .*{cause}") as caught:
        opened(store)
    assert "update this one" in caught.value.hint
    assert "delete it" in caught.value.hint
    document = store.read(KEY)
    assert document
    assert document.body == body


def test_a_table_without_a_schema_gets_it_of_its_files_and_keeps_it(store: MoodyStore, tmp_path: Path) -> None:
    put_file(store, tmp_path, "day=1/data_1.parquet", {"a": pa.array([1]), "void": pa.nulls(1)}, age=20)
    put_file(store, tmp_path, "day=2/data_2.parquet", {"a": pa.array([1.5]), "b": pa.array(["x"])}, age=10)

    expected = TableSchema({"a": pa.float64(), "b": pa.string()})
    assert opened(store).current == expected == stored(store)


def test_only_data_files_of_the_table_count(store: MoodyStore, tmp_path: Path) -> None:
    for key in (".vidx/v.parquet", "_temporary/f.parquet", "_journal/f.parquet", "../t2/f.parquet", "notes.txt"):
        path = tmp_path / "store" / ROOT / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no Parquet at all")

    assert opened(store).current == EMPTY
    assert stored(store) is None


def test_the_newest_twenty_files_count_and_of_two_types_the_newer(store: MoodyStore, tmp_path: Path) -> None:
    for number in range(20):
        put_file(store, tmp_path, f"f{number}.parquet", {"a": pa.array(["x"]), f"c{number}": pa.array([1])}, number)
    put_file(store, tmp_path, "g.parquet", {"a": pa.array([True]), "old": pa.array([1])}, age=20)
    put_file(store, tmp_path, "a.parquet", {"a": pa.array([1])}, age=1)

    current = opened(store).current.columns

    assert current["a"] == pa.string()
    assert set(current) == {"a", *(f"c{number}" for number in range(19))}


@pytest.mark.parametrize("body", [b"", b"PAR1", b"no Parquet at all, but long enough to have a footer"])
def test_a_file_that_cannot_be_read_is_named(store: MoodyStore, tmp_path: Path, body: bytes) -> None:
    (tmp_path / "broken").write_bytes(body)
    store.upload(tmp_path / "broken", f"{ROOT}/f.parquet")

    with pytest.raises(FatalError, match=rf"the footer of {store.uri}/{ROOT}/f\.parquet: .*not a Parquet.*Move it"):
        opened(store)


def test_a_file_with_a_type_that_no_column_can_have_is_named(store: MoodyStore, tmp_path: Path) -> None:
    put_file(store, tmp_path, "f.parquet", {"a": pa.array([[(7, 1)]], pa.map_(pa.int64(), pa.int64()))})

    with pytest.raises(FatalError, match=rf"{ROOT}/f\.parquet: .*'a'.*map"):
        opened(store)


def test_fixed_types_that_contradict_the_table_are_refused_with_both(store: MoodyStore) -> None:
    opened(store).extend(TableSchema({"a": pa.string(), "b": pa.float64(), "c": pa.bool_()}))

    with pytest.raises(ConfigError) as caught:
        opened(store, a=pa.timestamp("us", "UTC"), b=pa.int64(), c=pa.bool_(), unseen=pa.date32())

    assert f"{store.uri}/{ROOT}" in str(caught.value)
    assert "'a' is string in the table and timestamp in COLUMN_TYPES" in caught.value.cause
    assert "'b' is double in the table and bigint in COLUMN_TYPES" in caught.value.cause
    assert "'c'" not in caught.value.cause


@pytest.mark.parametrize("there", ["in a file", "meanwhile"])
def test_fixed_types_are_compared_with_files_and_with_what_another_member_writes_meanwhile(
    store: MoodyStore, tmp_path: Path, there: str
) -> None:
    if there == "in a file":
        put_file(store, tmp_path, "f.parquet", {"a": pa.array(["x"])})
        with pytest.raises(ConfigError, match="string in the table and bigint"):
            opened(store, a=pa.int64())
        assert stored(store) is None
    else:
        keeper = opened(store, a=pa.int64())
        opened(store).extend(TEXT)
        with pytest.raises(ConfigError, match="string in the table and bigint"):
            keeper.extend(BIGINT)


def test_a_fixed_double_widens_a_bigint_column_at_once(store: MoodyStore, caplog: pytest.LogCaptureFixture) -> None:
    opened(store).extend(BIGINT)

    with caplog.at_level(logging.WARNING):
        assert opened(store, a=pa.float64(), unseen=pa.string()).current == DOUBLE == stored(store)

    assert len(caplog.messages) == 1
    assert "column 'a'" in caplog.messages[0]


def test_a_column_that_becomes_double_is_logged_once(store: MoodyStore, caplog: pytest.LogCaptureFixture) -> None:
    other, keeper = opened(store), opened(store)
    with caplog.at_level(logging.WARNING):
        other.extend(TableSchema({"a": pa.int64(), "s": pa.struct({"x": pa.list_(pa.int64()), "y": pa.int64()})}))
        keeper.extend(OTHER)
        assert not caplog.messages
        wide = TableSchema({"a": pa.float64(), "s": pa.struct({"x": pa.list_(pa.float64())})})
        keeper.extend(wide)
        keeper.extend(wide)
        keeper.extend(BIGINT)

    assert [message.partition(":")[0] for message in caplog.messages] == ["column 'a', 's.x[]'"]
    assert all("COLUMN_TYPES" in message and "Spark cannot read both types" in message for message in caplog.messages)


# --- the time zone of the folders -----------------------------------------------------------------------------------

PRAGUE = "Europe/Prague"


@pytest.mark.parametrize(("was", "now"), [(PRAGUE, "UTC"), ("UTC", PRAGUE), (PRAGUE, "Europe/Berlin")])
def test_a_table_keeps_its_time_zone(store: MoodyStore, was: str, now: str) -> None:
    opened(store, was).extend(OTHER)
    opened(store, was).extend(BIGINT)
    assert opened(store, was).current == OTHER.merge(BIGINT)
    with pytest.raises(ConfigError, match=f"have their times in {was}, TIME_ZONE says {now}. Set TIME_ZONE={was} to"):
        opened(store, now)


def test_a_table_of_files_alone_has_its_times_in_utc(store: MoodyStore, tmp_path: Path) -> None:
    put_file(store, tmp_path, "year=2024/f.parquet", {"a": [1]})
    with pytest.raises(ConfigError, match=f"have their times in UTC, TIME_ZONE says {PRAGUE}"):
        opened(store, PRAGUE)
    opened(store)


def test_of_members_with_two_time_zones_the_first_one_counts(store: MoodyStore) -> None:
    first, second = opened(store, PRAGUE), opened(store)
    first.extend(OTHER)
    with pytest.raises(ConfigError, match=f"have their times in {PRAGUE}, TIME_ZONE says UTC"):
        second.extend(OTHER)


def test_an_iceberg_table_that_others_have_made_takes_the_time_zone_once(store: MoodyStore) -> None:
    SchemaStore(store, ROOT, {}, iceberg=BIGINT, time_zone=PRAGUE).open()
    with pytest.raises(ConfigError, match=f"have their times in {PRAGUE}, TIME_ZONE says UTC"):
        SchemaStore(store, ROOT, {}, iceberg=BIGINT).open()


# --- of an Iceberg table --------------------------------------------------------------------------------------------


def test_the_columns_of_an_iceberg_table_come_first_and_none_becomes_double(store: MoodyStore) -> None:
    first = SchemaStore(store, ROOT, {}, iceberg=BIGINT)
    first.open()
    second = SchemaStore(store, ROOT, {}, iceberg=EMPTY)
    second.open()
    assert first.extend(OTHER).columns == {**BIGINT.columns, **OTHER.columns}
    assert second.extend(DOUBLE).columns == BIGINT.columns


def test_a_fixed_double_is_refused_for_a_bigint_column_of_iceberg(store: MoodyStore) -> None:
    with pytest.raises(ConfigError, match="'a' is bigint in the table and double in COLUMN_TYPES"):
        SchemaStore(store, ROOT, {"a": pa.float64()}, iceberg=BIGINT).open()
