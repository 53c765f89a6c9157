"""A batch that is gathered: portions go into one staged file, and each row into the file that it belongs to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.delivery.stage import OpenBatch, Staged, Stager
from app.model import Batch, OffsetRange, Pairs, Rejected, StagedFile, TopicPartition
from app.reason_texts import Reason
from app.table.layout import dead_letter_key, file_name
from app.table.schema import TableSchema
from tests.support.batches import TP, batch, batch_of, row, spec, stager

OTHER = TopicPartition("sensors", 1)


def at_once(work: Any) -> TableSchema:
    found: TableSchema = work()
    return found


class Gathering:
    def __init__(self, path: Path) -> None:
        self.stager: Stager = stager(replace(spec("p"), sort_column="at"))
        self.batch: OpenBatch = self.stager.open(7, path / "staged.parquet")

    def add(self, portion: Batch) -> bool:
        """Whether it was taken."""
        converted = self.stager.convert(portion, at_once)
        if not self.batch.fits(converted.rows):
            return False
        self.batch.append(portion, converted)
        return True


@pytest.fixture
def gathering(tmp_path: Path) -> Gathering:
    return Gathering(tmp_path)


def rows_by_file(staged: Staged) -> list[tuple[str, list[Any]]]:
    """The folder of each file with its rows, in the order of the staged file."""
    file = staged.file
    assert isinstance(file, StagedFile)
    groups: list[list[Any]] = [[] for _ in file.groups]
    for values in pq.ParquetFile(file.path).read().to_pylist():
        values.pop("ts_ms")  # each row has it
        groups[values.pop(file.group_column)].append(values)
    assert [len(rows) for rows in groups] == [group.rows for group in file.groups]
    return [(group.partition_values["p"], rows) for group, rows in zip(file.groups, groups, strict=True)]


def test_a_file_has_the_partitions_whose_rows_it_holds(gathering: Gathering) -> None:
    gathering.add(batch_of({OTHER: [row({"p": "a", "v": 1}, 5)], TP: [row({"p": "b", "v": 2}, 0)]}))
    gathering.add(batch_of({TP: [row({"p": "b", "v": 3}, 1), row({"p": "a", "v": 4}, 2)]}))
    gathering.add(batch_of({OTHER: [row({"p": "a", "v": 5}, 6), row({"p": "c", "v": 6}, 7)]}))
    staged = gathering.batch.close()
    assert rows_by_file(staged) == [
        ("a", [{"v": 1}, {"v": 4}, {"v": 5}]),
        ("b", [{"v": 2}, {"v": 3}]),
        ("c", [{"v": 6}]),
    ]
    assert staged.file is not None
    of_tp, of_other = staged.parts
    assert (of_tp.number, of_other.number) == (7, 7), "that of the batch"
    assert (of_tp.offsets, of_other.offsets) == (OffsetRange(TP, 0, 2), OffsetRange(OTHER, 5, 7))
    names = [file_name(parts) for parts in ((of_tp, of_other), (of_tp,), (of_other,))]
    assert [group.key.rpartition("/")[2] for group in staged.file.groups] == names
    assert staged.file.offsets == (of_tp.offsets, of_other.offsets), "the names of files do not say them"


def test_no_offsets_are_noted_where_the_names_say_them(gathering: Gathering) -> None:
    gathering.add(batch_of({OTHER: [row({"p": "a", "v": 1}, 5)], TP: [row({"p": "b", "v": 2}, 0)]}))
    staged = gathering.batch.close()
    assert staged.file is not None
    assert staged.file.offsets == ()


def test_a_column_that_comes_later_is_empty_in_the_rows_before(gathering: Gathering) -> None:
    gathering.add(batch({"p": "a", "v": 1}))
    gathering.add(batch({"p": "a", "w": "x"}, first=1))
    gathering.add(batch({"p": "b", "v": 2}, {"p": "b"}, first=2))
    assert rows_by_file(gathering.batch.close()) == [
        ("a", [{"v": 1, "w": None}, {"v": None, "w": "x"}]),
        ("b", [{"v": 2, "w": None}, {"v": None, "w": None}]),
    ]


@pytest.mark.parametrize("value", [{"v": 1.5}, {"__FILE_GROUP": 1}], ids=["another type", "the helper column's name"])
def test_rows_that_do_not_fit_the_columns_are_not_taken(gathering: Gathering, value: dict[str, Any]) -> None:
    assert gathering.add(batch({"p": "a", "v": 1}))
    assert not gathering.add(batch({"p": "a", **value}, first=1))
    assert rows_by_file(gathering.batch.close()) == [("a", [{"v": 1}])]


@pytest.mark.parametrize(("at", "sort_column"), [(1, "at"), (Pairs(a=1), None)])
def test_the_sort_column_may_come_later_and_cannot_be_a_map(
    gathering: Gathering, at: Any, sort_column: str | None
) -> None:
    gathering.add(batch({"p": "a", "v": 1}))
    gathering.add(batch({"p": "a", "at": at}, first=1))
    staged = gathering.batch.close()
    assert staged.file is not None
    assert staged.file.sort_column == sort_column


def test_rejected_records_are_in_the_order_of_the_topic(gathering: Gathering) -> None:
    for first in (0, 10):
        rejected = [Rejected(TP, first + offset, None, b"k", b"v", None, Reason("no object")) for offset in (3, 2)]
        rows = batch({"p": "a", "v": 1}, first=first)
        gathering.add(Batch(rows.parts, rows.rows, rejected=tuple(rejected)))
    staged = gathering.batch.close()
    [dead_letter] = staged.dead_letters
    assert (dead_letter.key, dead_letter.records) == (dead_letter_key("data/t", staged.parts[0]), 4)
    assert pq.read_table(dead_letter.path)["offset"].to_pylist() == [2, 3, 12, 13]


def test_what_rejected_records_take_is_counted_one_by_one(gathering: Gathering) -> None:
    """One large record among many small rows is no mean one."""
    rows = batch(*({"p": "a", "v": number} for number in range(100)), first=1)
    large = Rejected(TP, 0, None, b"", b"x" * 1_000_000, None, Reason("bad"))
    gathering.add(Batch(rows.parts, rows.rows, rejected=(large,)))
    assert 1_000_000 <= gathering.batch.size.rejected_bytes < 1_001_000


def test_sorting_takes_a_word_for_each_value(gathering: Gathering) -> None:
    gathering.add(batch(*({"p": "a", **{f"flag{n}": True for n in range(100)}} for _ in range(100))))
    assert gathering.batch.size.staged_bytes < 10_000
    assert gathering.batch.size.sort_bytes > 100 * 100 * 8
