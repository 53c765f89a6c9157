"""A batch as it is handed to Spark: which rows go into which file, and what is in them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.model import Batch, StagedFile, TopicPartition
from app.table.layout import HIVE_NULL, PartitionSpec
from tests.support.batches import NOON, TP, batch, batch_of, row, spec, stage, stager

OTHER = TopicPartition("sensors", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "staged.parquet"


def staged(some: Batch, wanted: PartitionSpec, path: Path) -> StagedFile:
    file = stage(stager(wanted), some, path).file
    assert file is not None
    return file


def rows_of(file: StagedFile) -> list[list[dict[str, Any]]]:
    table = pq.read_table(file.path)
    groups: list[list[dict[str, Any]]] = [[] for _ in file.groups]
    for values in table.to_pylist():
        groups[values.pop(file.group_column)].append(values)
    return groups


# --- groups ---------------------------------------------------------------------------------------------------------


def test_many_rows_in_many_groups_are_all_there(path: Path) -> None:
    rows = {tp: [row({"p": i % 37, "q": i % 3, "v": i}, i) for i in range(1_000)] for tp in (TP, OTHER)}
    file = staged(batch_of(rows), spec("p", "q"), path)
    assert len(file.groups) == 37 * 3
    for group, found in zip(file.groups, rows_of(file), strict=True):
        wanted = [v for v in range(1_000) if (str(v % 37), str(v % 3)) == tuple(group.partition_values.values())] * 2
        assert [values["v"] for values in found] == wanted, "one partition after the other"
        assert group.rows == len(wanted)


def test_files_of_an_iceberg_table_have_their_partition_columns(path: Path) -> None:
    rows = 10
    places = ("Rome", None, "a/b")
    some = batch(*({"p": places[i % 3], "q": i // rows, "v": i} for i in range(3 * rows)))
    file = staged(some, replace(spec("p", "q"), keeps_columns=True), path)
    found = {values["v"]: (values["p"], values["q"]) for in_file in rows_of(file) for values in in_file}
    assert found == {i: (places[i % 3], str(i // rows)) for i in range(3 * rows)}


# --- columns --------------------------------------------------------------------------------------------------------


def test_the_helper_column_gets_out_of_the_way_of_a_field_of_its_name(path: Path) -> None:
    usual = staged(batch({"v": 1}), spec(), path).group_column
    file = staged(batch({usual: "mine", f"{usual}_": "mine too"}), spec(), path)
    assert file.group_column not in {usual, f"{usual}_"}
    assert rows_of(file) == [[{usual: "mine", f"{usual}_": "mine too", "ts_ms": NOON}]]


def test_rows_without_any_column_left_are_kept(path: Path) -> None:
    file = staged(batch({"p": "a"}, {"p": "a"}, {"p": "b"}), spec("p", "ts_ms"), path)
    assert [group.rows for group in file.groups] == [2, 1]
    assert rows_of(file) == [[{"__key": None}, {"__key": None}], [{"__key": None}]]
    file = staged(batch({"ts_ms": None}, {"ts_ms": None}), spec("year", "p"), path)
    assert [dict(group.partition_values) for group in file.groups] == [{"year": HIVE_NULL, "p": HIVE_NULL}]
    assert rows_of(file) == [[{"__key": None}, {"__key": None}]]


def test_large_rows_are_in_row_groups_that_a_small_heap_can_hold(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = 2**14
    monkeypatch.setattr("app.spark.staged_file._MAX_ROW_GROUP_BYTES", 16 * unit)
    values = [{"v": text * (9 if index in (5, 6) else 0)} for index, text in enumerate(["x" * unit] * 100)]
    file = staged(batch(*values, {"v": "x" * unit * 17}, {"v": "x" * unit * 7}), spec(), path)
    footer = pq.read_metadata(file.path)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups if group.total_byte_size > 16 * unit + 1_000] == [1]
    assert len(groups) < 20, "small ones stay together"
    assert [len(row.get("v") or "") // unit for row in rows_of(file)[0]] == [0] * 5 + [9, 9] + [0] * 93 + [17, 7]
