"""Merged files take the place of others in an Iceberg table, whatever others commit at the same time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ServiceUnavailableError,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

from app.errors import FatalError
from app.model import DataFile
from app.parts.iceberg.entries import entries
from app.parts.iceberg.rewrite import Fitting, LiveFile, Merged, Rewrite
from app.table.parquet_reader import schema_of
from tests.unit.parts.iceberg.iceberg_bench import EVERY_TYPE, IcebergBench, commits, marks


def rewrite(bench: IcebergBench, sort_column: str | None = None, rows: int = 1_000) -> Rewrite:
    return Rewrite(bench.member(), bench.store, sort_column, rows)


def of_partition(files: Sequence[LiveFile]) -> list[list[LiveFile]]:
    groups: dict[Any, list[LiveFile]] = {}
    for file in files:
        groups.setdefault(file.group, []).append(file)
    return [*groups.values()]


def merged(bench: IcebergBench, folder: Path, some: Rewrite | None = None) -> tuple[Rewrite, list[Merged]]:
    """One file for each partition, or some with columns that do not fit, which are not in the table yet."""
    some = some or rewrite(bench)
    found = []
    for files in of_partition(some.files()):
        for fitting in some.fitting((file, columns_of(bench, file)) for file in files):
            found += [some.merge(fitting, folder, lambda _: {}, token_hex(12))]
    return some, found


def new_files(merges: Sequence[Merged]) -> list[DataFile]:
    return [each.file for each in merges if each.file]


def columns_of(bench: IcebergBench, file: LiveFile) -> pa.Schema:
    return pq.read_schema(f"{bench.store.uri.removeprefix('file://')}/{file.key}").remove_metadata()


def test_every_value_and_bound_is_that_of_the_files_before(bench: IcebergBench, tmp_path: Path) -> None:
    member = bench.member()
    for number, place in enumerate(("Rome", None, "Rome", None)):
        member.add_files([bench.file(str(number), EVERY_TYPE, place)], "readings", marks(number))
    before, snapshot = bench.rows(), bench.table.current_snapshot()
    some, files = merged(bench, tmp_path)
    assert some.commit(files) == files
    assert repr(bench.rows()) == repr(before)
    assert len(bench.table.scan("place = 'Rome' and moment < '2026-01-01T00:00:00+00:00'").to_arrow()) == 2
    assert len(bench.table.scan("x > 100").to_arrow()) in (0, 4), "NaN is above all numbers for some"
    assert len(bench.table.scan("price < 13 and born is not null").to_arrow()) == 4
    newest = bench.table.current_snapshot()
    assert snapshot is not None
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary.operation.value == "replace"
    assert (newest.summary["total-data-files"], newest.summary["total-records"]) == ("2", "8")
    assert repr(sorted(bench.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist(), key=repr)) == repr(
        before
    )
    member.add_files([bench.file("next", EVERY_TYPE)], "readings", marks(9))
    assert len(bench.rows()) == 10


def test_columns_are_those_that_the_table_has_now(bench: IcebergBench, tmp_path: Path) -> None:
    member = bench.member()
    site = pa.array([[{"floor": 1, "code": 7}]], pa.list_(pa.struct([("floor", pa.int64()), ("code", pa.int64())])))
    columns = {"temp": [1.5], "secret": ["x"], "count": pa.array([3], pa.int32()), "sites": site}
    member.add_files([bench.file("one", columns)], "readings", marks(0))
    with bench.table.update_schema() as schema:
        schema.rename_column("temp", "temperature")
        schema.delete_column("secret")
        schema.rename_column("sites.element.floor", "level")
        schema.delete_column("sites.element.code")
        schema.add_column("secret", StringType())
    member.add_files([bench.file("two", {"temp": [2.5], "new": ["y"], "sites": site})], "readings", marks(1))
    before = bench.rows()
    some, [one] = merged(bench, tmp_path)
    with bench.table.update_schema() as schema:
        schema.rename_column("new", "newer")
        schema.update_column("count", LongType())
    assert some.commit([one]) == [one]
    after = [{"new" if name == "newer" else name: value for name, value in row.items()} for row in bench.rows()]
    assert sorted(after, key=repr) == before
    assert bench.table.scan("temperature > 2").to_arrow()["newer"].to_pylist() == ["y"]
    member.add_files([bench.file("three", {"temp": [3.5], "count": [4]})], "readings", marks(2))
    assert [row["temperature"] for row in bench.rows("temperature")] == [1.5, 2.5, 3.5]


def test_null_lists_of_structures_stay_null(bench: IcebergBench, tmp_path: Path) -> None:
    member, kind = bench.member(), pa.list_(pa.struct([("floor", pa.int64())]))
    sites = [None, [], [None], [{"floor": None}]]
    member.add_files([bench.file("one", {"n": range(4), "sites": pa.array(sites, kind)})], "readings", marks(0))
    member.add_files([bench.file("two", {"n": [4]})], "readings", marks(1))
    _, [one] = merged(bench, tmp_path, rewrite(bench, "n"))
    with pq.ParquetFile(f"{bench.store.uri.removeprefix('file://')}/{new_files([one])[0].key}") as file:
        assert file.read()["sites"].to_pylist() == [*sites, None]


def test_files_whose_columns_do_not_fit_stay_apart(bench: IcebergBench, tmp_path: Path) -> None:
    member, table = bench.member(), bench.table
    member.add_files([bench.file("one", {"n": [1], "t": ["a"]})], "readings", marks(0))
    with bench.table.update_schema() as schema:
        schema.rename_column("t", "text")
    for number, columns in enumerate(({"text": ["b"]}, {"n": pa.array([2], pa.int32())}, {"t": ["c"]}), 1):
        member.add_files([bench.file(str(number), columns)], "readings", marks(number))
    table = bench.table
    for number in range(2):
        table.append(pa.table({"place": ["Rome"], "n": [10 + number], "text": ["d"]}, table.schema().as_arrow()))
    with bench.table.update_schema() as schema:
        schema.rename_column("text", "t")
    table = bench.table
    table.append(pa.table({"place": ["Rome"], "n": [20], "t": ["e"]}, table.schema().as_arrow()))
    before = bench.rows()
    some, files = merged(bench, tmp_path)
    assert sorted(sorted(its.rows for its in each.inputs) for each in files) == [[1], [1], [1], [1, 1], [1, 1]]
    assert some.commit(files) == files
    assert bench.rows() == before


def test_a_column_of_the_name_of_a_dropped_one_is_another(bench: IcebergBench, tmp_path: Path) -> None:
    """By the field ids that engines write."""
    bench.member().add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    for number in (2, 3):
        table = bench.table
        table.append(pa.table({"place": ["Rome"], "n": [number]}, table.schema().as_arrow()))
        if number == 2:
            with bench.table.update_schema() as schema:
                schema.delete_column("n")
                schema.add_column("n", LongType())
    before = bench.rows()
    some, files = merged(bench, tmp_path)
    assert some.commit(files) == files
    assert bench.rows() == before


@pytest.mark.parametrize("change", ["rename", "drop"])
def test_a_column_that_has_its_value_from_the_partition_is_no_null(
    bench: IcebergBench, tmp_path: Path, change: str
) -> None:
    """As of files that came from plain folders."""
    bench.member().add_files([bench.file("one", {"n": [1]})], "readings", marks(0))
    hive = replace(bench.file("two", {"n": [2]}), footer=None)
    path = Path(hive.uri.removeprefix("file://"))
    pq.write_table(pa.table({"n": [2]}), path)
    file = replace(hive, size=path.stat().st_size, footer=pq.read_metadata(path))
    with bench.table.transaction() as transaction, transaction.update_snapshot().merge_append() as append:
        for entry in entries(transaction.table_metadata, [(file, schema_of(file), Record("Rome"))]):
            append.append_data_file(entry)
    if change == "rename":
        with bench.table.update_schema() as schema:
            schema.rename_column("place", "city")
    else:
        with bench.table.update_spec() as spec:
            spec.remove_field("place")
    before = bench.rows()
    some, files = merged(bench, tmp_path)
    assert some.commit(files) == files
    assert bench.rows() == before


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None], pa.timestamp("ns")),
        pa.array(["a", None]).dictionary_encode(),
        pa.array([1, None], pa.uint32()),
        pa.nulls(2),
    ],
    ids=str,
)
def test_files_of_types_that_would_change_are_left(bench: IcebergBench, tmp_path: Path, values: pa.Array) -> None:
    bench.fill()
    some = rewrite(bench)
    odd = pa.schema({"place": pa.string(), "n": values.type})
    first, *others = [(file, columns_of(bench, file)) for file in some.files()]
    [fitting] = some.fitting([(first[0], odd), *others])
    assert [file.key for file in fitting.files] == [file.key for file, _ in others]


def test_a_file_is_found_by_a_value_that_has_no_bounds(bench: IcebergBench, tmp_path: Path) -> None:
    """Parquet has none of a value of more than 4 KB; the other row groups have some."""
    member, large = bench.member(), "z" * 5_000
    member.add_files([bench.file("one", {"s": ["b", "c"]})], "readings", marks(0))
    member.add_files([bench.file("two", {"s": [large, "b"]})], "readings", marks(1))
    some, files = merged(bench, tmp_path, rewrite(bench, rows=2))
    assert some.commit(files) == files
    assert [len(bench.table.scan(each).to_arrow()) for each in (f"s = '{large}'", "s > 'c'", "s = 'c'")] == [1, 1, 1]


def test_files_of_deletes_are_no_orphans(bench: IcebergBench) -> None:
    bench.fill()
    some = rewrite(bench)
    deletes = IcebergFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"{bench.store.uri}/data/readings/place=Rome/1-deletes.parquet",
        file_format=FileFormat.PARQUET,
        partition=some.files()[0].task.file.partition,
        record_count=1,
        file_size_in_bytes=1,
        spec_id=0,
    )
    with bench.table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(deletes)
    assert "data/readings/place=Rome/1-deletes.parquet" in some.referenced()


def test_files_of_former_partitions_keep_them(bench: IcebergBench, tmp_path: Path) -> None:
    bench.fill()
    with bench.table.update_spec() as spec:
        spec.add_field("n", parse_transform("bucket[4]"), "of_n")
    former = {file.group for file in rewrite(bench).files()}
    some, files = merged(bench, tmp_path)
    assert some.commit(files) == files
    assert [file.group for file in some.files()] == [*former]
    assert bench.table.scan("place = 'Rome' and n = 1").to_arrow()["n"].to_pylist() == [1]
    assert bench.numbers() == [0, 1, 2]


def test_row_groups_are_of_the_wanted_size_and_sorted(bench: IcebergBench, tmp_path: Path) -> None:
    member = bench.member()
    for number, values in enumerate(([5, None, 1], [5, 1, None], [None, 5, 1])):
        member.add_files([bench.file(str(number), {"n": values})], "readings", marks(number))
    _, [one] = merged(bench, tmp_path, rewrite(bench, "n", rows=6))
    with pq.ParquetFile(tmp_path / "merged.parquet") as file:
        groups = [file.read_row_group(index)["n"].to_pylist() for index in range(file.num_row_groups)]
    assert groups == [[1, 1, 5, 5, None, None], [1, 5, None]]
    assert new_files([one])[0].rows == 9


# --- others at the same time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lost",
    [
        CommitStateUnknownException("lost"),
        ServiceUnavailableError("away"),
        BadRequestError("400"),
        ValueError("a page"),
        CommitFailedException("409"),  # also of a repetition, by a proxy that has lost the first answer
    ],
)
@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_a_lost_answer_neither_loses_nor_doubles(
    bench: IcebergBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: Exception, is_done: bool
) -> None:
    bench.fill()
    some, files = merged(bench, tmp_path)

    def fail(count: int) -> None:
        if count == 1:
            raise lost

    count = commits(monkeypatch, **{"after" if is_done else "before": fail})
    assert some.commit(files) == files
    assert count == [1 if is_done else 2]
    assert bench.numbers() == [0, 1, 2]
    assert len(some.files()) == 1


def test_what_is_appended_meanwhile_stays(bench: IcebergBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.fill()
    some, files = merged(bench, tmp_path)
    member = bench.member()

    def append(count: int) -> None:
        if count in (1, 3):
            member.add_files([bench.file(f"late {count}", {"n": [100 + count]})], "readings", marks(100 + count))

    commits(monkeypatch, before=append)
    assert some.commit(files) == files
    assert bench.numbers() == [0, 1, 2, 101, 103]
    assert len(some.files()) == 3


def test_files_whose_rows_somebody_deletes_meanwhile_are_left(
    bench: IcebergBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.fill()
    bench.member().add_files([bench.file(f"{n}", {"n": [n]}, "Oslo") for n in (7, 8)], "readings", marks(9))
    some, files = merged(bench, tmp_path)

    def delete(count: int) -> None:
        if count == 1:
            bench.table.delete("n = 1")

    commits(monkeypatch, before=delete)
    done = some.commit(files)
    assert [each.rows for each in new_files(done)] == [2]
    assert bench.numbers() == [0, 2, 7, 8]


def test_of_two_runs_at_once_one_is_done(bench: IcebergBench, tmp_path: Path) -> None:
    bench.fill()
    (one, ones), (other, others) = merged(bench, tmp_path), merged(bench, tmp_path)
    assert (one.commit(ones), other.commit(others)) == (ones, [])
    assert bench.numbers() == [0, 1, 2]
    stored = {found.key for found in bench.store.list("data/readings/")}
    assert {each.key for each in new_files([*ones, *others])} <= stored
    unreferenced = stored - one.referenced()
    assert {each.key for each in new_files(others)} == {key for key in unreferenced if key.endswith(".parquet")}


def test_a_file_that_has_lost_rows_is_refused(bench: IcebergBench, tmp_path: Path) -> None:
    bench.fill()
    some = rewrite(bench)
    files = some.files()
    pq.write_table(
        pa.table({"n": pa.array([], pa.int64())}), bench.store.uri.removeprefix("file://") + "/" + files[0].key
    )
    with pytest.raises(FatalError, match="2 rows instead of 3"):
        some.merge(
            Fitting(pa.schema({"n": pa.int64(), "place": pa.string()}), files), tmp_path, lambda _: {}, token_hex(12)
        )
