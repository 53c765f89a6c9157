"""What staging does with rows that cannot be written, with columns that others claimed first, and with metadata."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.delivery.stage import Staged
from app.model import TopicPartition
from app.table.layout import COMPUTED_BYTES
from app.table.schema import TableSchema
from tests.fakes.memory_schema import MemorySchema
from tests.support.batches import NOON, TP, batch, batch_of, row, spec, stage, stager

OTHER = TopicPartition("sensors", 1)
LONG = "l" * 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "staged.parquet"


def rows_of(staged: Staged) -> list[dict[str, Any]]:
    assert staged.file is not None
    table = pq.read_table(staged.file.path)
    rows: list[dict[str, Any]] = table.drop_columns([staged.file.group_column]).to_pylist()
    return rows


def test_rows_that_fit_no_folder_are_rejected_and_the_others_stay(path: Path) -> None:
    timeless = {"p": "a", "ts_ms": "soon"}
    rows = {
        TP: [row({"p": "a", "v": 1}, 5), row({"p": LONG, "v": 2}, 6)],
        OTHER: [row({"p": LONG}, 7), row(timeless, 8)],
    }
    staged = stage(stager(spec("year", "p")), batch_of(rows), path)
    assert [values["v"] for values in rows_of(staged)] == [1]
    found = [(one.tp, one.offset, one.value) for one in staged.rejected]
    assert found == [(TP, 6, {"p": LONG, "v": 2}), (OTHER, 7, {"p": LONG}), (OTHER, 8, timeless)]
    assert "needs a folder name of 302 bytes" in staged.rejected[0].reason


def test_a_record_without_any_timestamp_is_a_row_like_others_where_no_folder_needs_one(path: Path) -> None:
    some = batch_of({TP: [row({"v": 1}, timestamp=-1), row({"v": 2}, 1, timestamp=-2)]})
    staged = stage(stager(spec(), metadata=["__timestamp"]), some, path)
    assert staged.rejected == ()
    one, two = rows_of(staged)
    assert (one["ts_ms"], one["__timestamp"]) == (None, None)
    assert two["ts_ms"] == -2, "before 1970, which is a time like others"


def test_a_column_that_another_member_gave_another_type_is_converted_again(path: Path) -> None:
    class Quicker(MemorySchema):
        def extend(self, wanted: TableSchema) -> TableSchema:
            if not self.asked:
                self.current = TableSchema({"v": pa.string()})
            return super().extend(wanted)

    schema = Quicker()
    staged = stage(stager(spec(), schema=schema), batch({"v": 5}), path)
    (values,) = rows_of(staged)
    assert values.get("v") is None
    assert json.loads(values["_rescued_data"]) == {"v": 5}
    assert schema.current.columns["v"] == pa.string()
    assert staged.rescued == 1


def test_rescued_columns_are_told_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    some = stager(spec(), schema=MemorySchema(TableSchema({"v": pa.int64()})))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert stage(some, batch({"v": "warm", "ts_ms": 1}, {"v": "hot"}), path).rescued == 2
    (record,) = caplog.records
    assert "column 'v'" in record.getMessage()
    assert "a value of type str in a bigint column" in record.getMessage()
    assert "warm" not in record.getMessage()


def test_metadata_columns_tell_where_each_row_is_from(path: Path) -> None:
    names = ("__topic", "__partition", "__offset", "__timestamp", "__headers")
    first = row({"v": 1}, 5)._replace(headers=[("h", b"\x00"), ("h", "text"), ("none", None)])
    rows = {TP: [first], OTHER: [row({"v": 2, "__offset": 99}, 7)]}
    staged = stage(stager(spec(), metadata=names), batch_of(rows), path)
    one, two = rows_of(staged)
    assert (one["__topic"], one["__partition"], one["__offset"]) == ("sensors", 0, 5)
    assert one["__timestamp"].timestamp() * 1000 == NOON
    assert one["__headers"] == [
        {"key": "h", "value": b"\x00"},
        {"key": "h", "value": b"text"},
        {"key": "none", "value": None},
    ]
    assert (two["__partition"], two["__offset"], two["__headers"]) == (1, 7, None)
    assert json.loads(two["_rescued_data"]) == {"__offset": 99}


def test_an_iceberg_table_has_metadata_that_it_is_partitioned_by_as_text(path: Path) -> None:
    wanted = replace(spec("__partition"), keeps_columns=True)
    staged = stage(stager(wanted, metadata=["__partition"]), batch({"v": 1}, tp=OTHER), path)
    assert [values["__partition"] for values in rows_of(staged)] == ["1"]


def test_an_iceberg_table_has_the_times_of_its_zone_as_text(path: Path) -> None:
    wanted = replace(spec("day", "hour", time_zone="Europe/Prague"), keeps_columns=True)
    staged = stage(stager(wanted), batch({"ts_ms": "2024-01-15T23:30:00Z"}), path)
    assert [(values["day"], values["hour"]) for values in rows_of(staged)] == [("16", "00")]


def test_any_number_of_rescued_columns_is_told_in_one_line(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    some = stager(spec())
    with caplog.at_level(logging.WARNING):
        for first in range(0, 6_000, 2_000):
            names = [f"{number:06}" + "n" * 200_000 * (number % 500 == 0) for number in range(first, first + 2_000)]
            stage(some, batch({"ts_ms": 1, **dict.fromkeys(names, 1)}), path)
    assert 1 <= len(caplog.messages) <= 2
    assert all(len(message) < 3_000 for message in caplog.messages)
    assert "column '001000" in caplog.messages[0]
    assert "more columns" in caplog.messages[0]
    assert "No further columns are logged" in caplog.messages[-1]


# --- partition columns without any value ----------------------------------------------------------------------------


def warnings_of(column: str, *records: dict[str, Any], path: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    some = stager(spec(column))
    with caplog.at_level(logging.WARNING):
        stage(some, batch(*records), path)
        stage(some, batch(*records), path.with_suffix(".second"))
    return [message for message in caplog.messages if message.startswith("HIVE_COLUMNS")]


@pytest.mark.parametrize(
    ("column", "record", "hint"),
    [
        ("Year", {"n": 1}, "Did you mean year?"),
        ("Year", {"year": 2024}, "Did you mean year?"),
        ("Location", {"location": "hall"}, "Did you mean location?"),
        ("locaton", {"location": "hall"}, "Did you mean location?"),
        ("meta.region", {"meta": {"Region": "eu"}}, "Check the name"),
        ("place", {"n": 1, "place": ""}, "place=__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_partition_column_without_any_value_in_the_first_batch_is_told_once(
    column: str, record: dict[str, Any], hint: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (told,) = warnings_of(column, record, record, path=path, caplog=caplog)
    assert column in told
    assert hint in told


@pytest.mark.parametrize(
    ("column", "record"),
    [
        ("years", {"years": 3}),
        ("meta.region", {"meta.region": "eu"}),
        ("meta.region", {"meta": {"region": "eu"}}),
        ("month", {"n": 1}),
    ],
)
def test_nothing_is_told_of_a_partition_column_with_a_value(
    column: str, record: dict[str, Any], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(column, {"n": 0}, record, path=path, caplog=caplog) == []


def test_a_key_has_room_for_the_folders_that_are_computed(tmp_path: Path) -> None:
    value = {name: name * 220 for name in "abc"}
    for computed_bytes, rejected in ((0, 0), (COMPUTED_BYTES, 1)):
        staging = stager(replace(spec(*"abc"), computed_bytes=computed_bytes))
        staged = stage(staging, batch(value), tmp_path / f"{computed_bytes}.parquet")
        assert len(staged.rejected) == rejected
