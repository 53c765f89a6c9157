"""``python main.py audit`` over tables in a local folder, by the names of files and by the offsets in them."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.bad_records import dead_letter
from app.errors import FatalError
from app.model import OffsetRange, Rejected, TopicPartition
from app.parts.audit import offsets
from app.parts.audit.command import audit
from app.reason_texts import Reason
from app.storage.base import StoredObject
from app.storage.local.store import LocalStore
from app.table.layout import dead_letter_key, file_name
from tests.fakes.arrow_writer import with_offsets
from tests.support.batches import part
from tests.support.commands import options, run_command
from tests.support.environment import local_settings
from tests.support.journals import keep_journal

TP = TopicPartition("readings", 3)
A, B = "a" * 24, "b" * 24


class Table:
    def __init__(self, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.lake = lake
        self.root = lake / "data/readings"
        self.root.mkdir(parents=True)
        self.settings = local_settings(lake)

    def add(
        self,
        first: int,
        last: int,
        owner: str = A,
        number: int = 0,
        *,
        offsets: Iterable[int] | None = None,
        folder: str = ".",
        tp: TopicPartition = TP,
    ) -> Path:
        """A file of this name; with the offsets of its name, or with these."""
        path = self.root / folder / file_name([part(tp, first, last, owner, number)])
        path.parent.mkdir(parents=True, exist_ok=True)
        held = list(range(first, last + 1) if offsets is None else offsets)
        table = pa.table({"n": pa.array(range(len(held)), pa.int64()), "__offset": pa.array(held, pa.int64())})
        pq.write_table(table, path, row_group_size=7)
        return path

    def add_shared(
        self,
        offsets: dict[TopicPartition, Sequence[int]],
        ranges: dict[TopicPartition, tuple[int, int]],
        batch: str,
        *,
        folder: str = ".",
        columns: Sequence[str] = ("__offset", "__partition"),
    ) -> Path:
        """A file whose rows have these offsets; the ranges are those of its batch, which has this owner and number."""
        rows = [(tp.topic, tp.partition, offset) for tp, some in offsets.items() for offset in some]
        topics, partitions, held = zip(*rows, strict=True)
        every = {
            "__topic": pa.array(topics, pa.string()),
            "__partition": pa.array(partitions, pa.int32()),
            "__offset": pa.array(held, pa.int64()),
        }
        rows_of_file = pa.table({"n": held} | {name: every[name] for name in columns})
        noted = [OffsetRange(tp, first, last) for tp, (first, last) in ranges.items()]
        path = self.root / folder / f"data_readings_batch_{batch}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(with_offsets(rows_of_file, noted), path)
        return path

    def reject(self, first: int, last: int, offsets: Sequence[int]) -> Path:
        path = self.lake / dead_letter_key("data/readings", part(TP, first, last, A))
        path.parent.mkdir(parents=True, exist_ok=True)
        dead_letter.write([Rejected(TP, offset, 0, b"k", b"v", None, Reason("no JSON")) for offset in offsets], path)
        return path

    def text(self, *arguments: str) -> tuple[int, list[str]]:
        code = audit(self.settings, options("audit", *arguments))
        return code, self._capsys.readouterr().out.splitlines()

    def json(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        code, lines = self.text(*arguments, "--json")
        return code, json.loads("".join(lines))


@pytest.fixture
def table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Table:
    return Table(tmp_path / "lake", capsys)


BOTH = pytest.mark.parametrize("how", [(), ("--offsets",)], ids=["by name", "by column"])


def whole(answer: dict[str, Any]) -> list[tuple[int, ...]]:
    keys = ("partition", "first", "last", "files", "batches", "doubled_offsets", "missing_offsets")
    return [tuple(each[key] for key in keys) for each in answer["partitions"]]


def doubled(answer: dict[str, Any]) -> list[tuple[int, int, list[str]]]:
    return [(each["first"], each["last"], each["batches"]) for each in answer["partitions"][0]["doubled"]]


def missing(answer: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(each["first"], each["last"], each["dead_letters"]) for each in answer["partitions"][0]["missing"]]


def test_names_tell_the_first_and_last_offset_of_a_batch_and_the_column_each_of_them(table: Table) -> None:
    table.add(0, 9, A, offsets=[0, 2, 2, 4, 6], folder="place=a")  # a message may become several rows
    table.add(0, 9, A, offsets=[2, 8], folder="place=b")
    table.add(1, 9, B, offsets=[1, 3, 5, 7])
    table.add(10, 14, B, 1, offsets=[10, 11, 14])
    table.add(16, 19, B, 2)
    table.reject(9, 12, [9, 12])
    table.reject(11, 15, [12, 15])  # one of them came twice
    code, answer = table.json()
    assert (code, doubled(answer), missing(answer)) == (1, [(1, 9, [f"{A}-0", f"{B}-0"])], [(15, 15, 1)])
    assert whole(answer) == [(3, 0, 19, 5, 4, 9, 1)]
    code, answer = table.json("--offsets")
    assert (code, doubled(answer), missing(answer)) == (0, [], [(9, 9, 1), (12, 13, 1), (15, 15, 1)])
    assert whole(answer) == [(3, 0, 19, 5, 4, 0, 4)]

    table.add(13, 15, A, 1, offsets=[14])
    code, answer = table.json("--offsets")
    assert (code, doubled(answer)) == (1, [(14, 14, [f"{B}-1", f"{A}-1"])])


def test_each_partition_has_its_own_batches(table: Table) -> None:
    """Arrow groups the partitions of this topic in another order than theirs."""
    ends = [9, 19, 29, 39, 49, 59]
    for partition, end in enumerate(ends):
        table.add(0, end, tp=TopicPartition("readings-81", partition))
        table.add(end + 1, 99, number=1, tp=TopicPartition("readings-81", partition))
    table.add(100, 109, number=2, tp=TopicPartition("readings-81", 4))
    code, answer = table.json()
    assert code == 0
    assert [(each["partition"], each["first"], each["last"], each["batches"]) for each in answer["partitions"]] == [
        (partition, 0, 109 if partition == 4 else 99, 3 if partition == 4 else 2) for partition in range(6)
    ]


def test_ranges_that_do_not_fit_into_memory_at_once_are_audited_as_a_whole(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        first = 5 * number + 30 * (number // 4)  # of four that overlap each other
        table.add(first, first + 19, number=number, offsets=range(first, first + 20, 1 + number % 3))
    expected = table.json("--offsets")
    monkeypatch.setattr(offsets, "RANGES_AT_ONCE", 3)
    assert table.json("--offsets") == expected
    assert doubled(expected[1])
    assert missing(expected[1])


def test_a_copy_under_the_name_of_another_batch_is_found_by_the_column(table: Table) -> None:
    original = table.add(0, 9, folder="place=a")
    other = table.add(10, 19, number=1, folder="place=a")
    copy = table.root / "place=b" / other.name
    copy.parent.mkdir()
    copy.write_bytes(original.read_bytes())
    assert table.text()[0] == 0  # the names say nothing
    code, lines = table.text("--offsets")
    assert code == 1
    assert f"  0-9 in place=b/{copy.name}" in lines


def test_a_file_without_the_column_counts_by_its_name(table: Table) -> None:
    table.add(0, 9, offsets=[3])
    pq.write_table(pa.table({"n": [1]}), table.root / file_name([part(TP, 10, 19, A, 1)]))
    pq.write_table(pa.table({"__offset": ["1"]}), table.root / file_name([part(TP, 20, 29, A, 2)]))
    code, answer = table.json("--offsets")
    assert (code, missing(answer), answer["files_without_offsets"]) == (0, [(0, 2, 0), (4, 9, 0)], 2)


def test_offsets_of_files_that_do_not_say_theirs_are_not_checked_and_not_doubled(table: Table) -> None:
    table.add(0, 9, A)
    pq.write_table(pa.table({"n": [1]}), table.root / file_name([part(TP, 5, 14, B)]))
    code, answer = table.json("--offsets")
    assert (code, doubled(answer), whole(answer)) == (1, [], [(3, 0, 14, 2, 2, 0, 0)])
    assert [each["unchecked_offsets"] for each in answer["partitions"]] == [5]
    told = "\n".join(table.text("--offsets")[1])
    assert "cannot check whether other batches contain 5 offsets" in told
    assert "delete its files" not in told

    table.add(0, 3, B, 1)
    code, answer = table.json("--offsets")
    assert (code, doubled(answer)) == (1, [(0, 3, [f"{B}-1", f"{A}-0"])])
    assert [each["unchecked_offsets"] for each in answer["partitions"]] == [5]


@BOTH
def test_files_of_others_are_named_and_the_tables_own_folders_left_out(table: Table, how: tuple[str, ...]) -> None:
    table.add(0, 9)
    for path in ("place=a/part-0.parquet", "b.parquet", ".vidx/c.parquet", "_journal/schema.json", "notes.txt"):
        (table.root / path).parent.mkdir(exist_ok=True)
        (table.root / path).write_bytes(b"")
    code, answer = table.json(*how)
    assert code == 0
    assert (answer["other_files"], answer["other_files_count"]) == (["b.parquet", "place=a/part-0.parquet"], 2)
    assert whole(answer) == [(3, 0, 9, 1, 1, 0, 0)]


def test_a_person_reads_aligned_columns(table: Table) -> None:
    table.add(0, 999, A, 0)
    table.add(500, 1499, B, 0)
    table.add(1501, 1600, B, 1)
    table.add(7, 7, B, 0, tp=TopicPartition("readings", 12))
    code, lines = table.text()
    assert code == 1
    assert [line for line in lines if "offsets  " in line or "readings[" in line] == [
        "              offsets  files  batches  duplicate  missing",
        "readings[3]   0-1600       3        3        500        1",
        "readings[12]  7            1        1          0        0",
        f"               offsets  count  {'batch':>26}  {'batch':>26}",
        f"  readings[3]  500-999    500  {A}-0  {B}-0",
        "               offsets  count  dead letter",
        "  readings[3]  1500         1            0",
    ]


@pytest.mark.parametrize("command", ["audit", "compact"])
def test_a_table_that_is_not_there_is_refused(table: Table, capsys: pytest.CaptureFixture[str], command: str) -> None:
    table.add(0, 9)
    table.reject(0, 9, [0])
    assert run_command(local_settings(table.lake, TABLE_NAME="reading"), command) == 2
    assert capsys.readouterr() == (
        "",
        f"ERROR! looking for the table: file://{table.lake}/data/reading is empty. "
        "Check TABLE_NAME (without it, input names the table), S3_PREFIX and the store\n",
    )


def test_a_table_that_has_a_journal_or_a_dead_letter_alone_exists(table: Table) -> None:
    path = table.reject(0, 9, [0])
    assert table.text()[0] == 0
    (table.root / "_journal").mkdir()
    path.rename(table.root / "_journal" / "schema.json")
    assert table.text()[0] == 0


# --- files of several partitions ------------------------------------------------------------------------------------

P1, P2 = TopicPartition("readings", 1), TopicPartition("readings", 2)
GENERATION = "0a1b2c3d4e5f607100000003"


@BOTH
def test_a_file_of_several_partitions_counts_for_each_of_its_batch(table: Table, how: tuple[str, ...]) -> None:
    ranges = {P1: (0, 9), P2: (5, 7)}
    table.add_shared({P1: range(0, 10, 2), P2: [5]}, ranges, f"{GENERATION}-1", folder="place=a")
    table.add_shared({P1: range(1, 10, 2), P2: [7]}, ranges, f"{GENERATION}-1", folder="place=b")
    table.add(5, 7, GENERATION, 1, offsets=[6], folder="place=c", tp=P2)
    table.add(10, 19, GENERATION, 2, tp=P1)
    code, answer = table.json(*how)
    assert code == 0
    assert whole(answer) == [(1, 0, 19, 3, 2, 0, 0), (2, 5, 7, 3, 1, 0, 0)]
    assert table.text(*how)[1][0].startswith(f"file://{table.root}: 4 files, ")


def test_files_of_several_topics_are_split_by_the_column_of_the_topic(table: Table) -> None:
    other = TopicPartition("alerts", 1)
    ranges = {P1: (0, 9), other: (0, 3)}
    names = ("__offset", "__partition", "__topic")
    table.add_shared({P1: [0, 9], other: [0, 1, 2, 3]}, ranges, f"{GENERATION}-1", columns=names)
    code, answer = table.json("--offsets")
    found = [(each["topic"], each["partition"], each["missing_offsets"]) for each in answer["partitions"]]
    assert (code, found) == (0, [("alerts", 1, 0), ("readings", 1, 8)])


@pytest.mark.parametrize("columns", [[], ["__offset"], ["__partition"]])
def test_a_file_whose_rows_do_not_say_their_partition_counts_by_its_batch(table: Table, columns: list[str]) -> None:
    ranges = {P1: (0, 9), P2: (0, 9)}
    table.add_shared({P1: [0], P2: [9]}, ranges, f"{GENERATION}-1", folder="place=a", columns=columns)
    table.add_shared({P1: [3], P2: [4]}, ranges, f"{GENERATION}-1", folder="place=b")
    code, answer = table.json("--offsets")
    assert (code, answer["files_without_offsets"]) == (0, 1)
    assert whole(answer) == [(1, 0, 9, 2, 1, 0, 0), (2, 0, 9, 2, 1, 0, 0)]
    assert "1 file merged or without __offset: audit assumes" in "\n".join(table.text("--offsets")[1])


def test_offsets_that_are_not_those_of_the_batch_are_found_by_the_column(table: Table) -> None:
    ranges = {P1: (0, 9), P2: (0, 9)}
    table.add_shared({P1: range(10), P2: range(10)}, ranges, f"{GENERATION}-1")
    foreign = table.add_shared({P1: [5, 11, 12], TP: [3]}, ranges, f"{GENERATION}-1", folder="place=b")
    code, answer = table.json("--offsets")
    assert (code, answer["misplaced_count"]) == (1, 2)
    name = str(foreign.relative_to(table.root))
    assert sorted(answer["misplaced"], key=lambda each: each["first"]) == [
        {"file": name, "first": 3, "last": 3, "offsets": 1},
        {"file": name, "first": 11, "last": 12, "offsets": 2},
    ]


@BOTH
def test_a_file_of_several_partitions_without_offsets_in_its_footer_is_named(
    table: Table, how: tuple[str, ...]
) -> None:
    path = table.add_shared({P1: [0], P2: [9]}, {}, f"{GENERATION}-1")
    table.add(0, 9)
    code, answer = table.json(*how)
    assert (code, answer["other_files"]) == (0, [path.name])
    assert table.text(*how)[1][0].startswith(f"file://{table.root}: 1 file, ")


@BOTH
@pytest.mark.parametrize("is_shared", [True, False], ids=["several partitions", "one partition"])
def test_files_of_batches_that_are_undone_or_not_finished_are_left_out(
    table: Table, how: tuple[str, ...], is_shared: bool
) -> None:
    table.add(0, 9)
    if is_shared:
        ranges = {TP: (5, 19), P2: (5, 19)}
        undone, under_way = (table.add_shared({TP: [5], P2: [6]}, ranges, f"{GENERATION}-{n}") for n in (1, 2))
    else:
        undone, under_way = table.add(5, 9, owner=B), table.add(10, 19, number=1)
    keep_journal(table.lake, "data/readings", pending=under_way, revoked=undone)
    code, answer = table.json(*how)
    assert (code, whole(answer)) == (0, [(3, 0, 9, 1, 1, 0, 0)])
    assert answer["unsettled_files"] == 2


@BOTH
def test_a_file_that_compact_has_emptied_says_nothing_of_its_batch(table: Table, how: tuple[str, ...]) -> None:
    """With a catalog it stays while other folders of the batch still have rows."""
    ranges = {P1: (0, 9), P2: (5, 7)}
    emptied = table.add_shared({P1: [0], P2: [5]}, ranges, f"{GENERATION}-1", folder="place=a")
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), emptied)
    table.add_shared({P1: range(10), P2: [5, 6, 7]}, ranges, f"{GENERATION}-1", folder="place=b")
    code, answer = table.json(*how)
    assert (code, answer["other_files"]) == (0, [])
    assert whole(answer) == [(1, 0, 9, 2, 1, 0, 0), (2, 5, 7, 2, 1, 0, 0)]


def test_one_footer_of_a_batch_is_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = {P1: (0, 99), P2: (0, 99)}
    for place, rows in (("a", 90), ("b", 5), ("c", 50)):
        table.add_shared({P1: range(rows), P2: range(rows)}, ranges, f"{GENERATION}-1", folder=f"place={place}")
    asked = []
    read_range = LocalStore.read_range

    def read(store: LocalStore, key: str, begin: int, length: int) -> bytes:
        asked.append(key)
        return read_range(store, key, begin, length)

    monkeypatch.setattr(LocalStore, "read_range", read)
    assert whole(table.json()[1]) == [(1, 0, 99, 3, 1, 0, 0), (2, 0, 99, 3, 1, 0, 0)]
    assert {key.split("/")[-2] for key in asked} == {"place=b"}, "the smallest"


def test_a_broken_file_is_named(table: Table) -> None:
    path = table.add(0, 9)
    path.write_bytes(b"broken")
    with pytest.raises(
        FatalError, match=f"reading the column __offset of .*{path.name}: it is not a valid Parquet file"
    ):
        audit(table.settings, options("audit", "--offsets"))


# --- a table that changes during the listing ------------------------------------------------------------------------


def during_the_listing(patch: pytest.MonkeyPatch, act: Callable[[StoredObject | None], None]) -> None:
    """Call ``act`` after each object of the table that is listed, and with ``None`` at the end."""
    listing = LocalStore.list

    def list_at_work(store: LocalStore, prefix: str) -> Iterator[StoredObject]:
        for listed in listing(store, prefix):
            yield listed
            act(listed)
        if prefix == "data/readings/":
            act(None)

    patch.setattr(LocalStore, "list", list_at_work)


def test_a_batch_undone_and_written_again_is_not_there_twice(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first files were listed already when its owner died; the next owner writes its rows into later folders."""
    table.add(0, 9, folder="place=b")
    undone = table.add(10, 19, number=1, folder="place=a")

    def write_again(listed: StoredObject | None) -> None:
        if listed and listed.key.endswith(undone.name) and undone.exists():
            keep_journal(table.lake, "data/readings", pending=table.root / "place=z/none", revoked=undone)
            undone.unlink()
            table.add(10, 24, owner=B, folder="place=b")

    during_the_listing(monkeypatch, write_again)
    code, answer = table.json()
    assert (code, whole(answer)) == (0, [(3, 0, 24, 2, 2, 0, 0)])
    assert answer["unsettled_files"] == 1


@pytest.mark.parametrize("end", ["finished", "swept and forgotten"])
def test_a_batch_that_ends_is_in_the_table_if_it_was_finished_and_else_left_out(
    table: Table, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A finished one that is left out would make a gap before the next batch, which was listed too."""
    is_finished = end == "finished"
    table.add(0, 9)
    ended = table.add(10, 19, number=1) if is_finished else table.add(5, 9, owner=B)
    none = table.root / "none"
    files = {"pending": ended, "revoked": none} if is_finished else {"pending": none, "revoked": ended}
    keep_journal(table.lake, "data/readings", **files)
    journal = next((table.root / "_journal").rglob("generations.d/*.json"))

    def forget(listed: StoredObject | None) -> None:
        if listed is None and journal.exists():
            journal.unlink()
            if not is_finished:
                ended.unlink()

    during_the_listing(monkeypatch, forget)
    table.add(20 if is_finished else 10, 29, number=2)
    code, answer = table.json()
    assert (code, missing(answer), doubled(answer)) == (0, [], [])
    if is_finished:
        assert answer["unsettled_files"] == 0
