"""``compact`` for an Iceberg table: which files it merges, and what it lists."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from app.errors import ConfigError
from app.model import DataFile, OffsetRange
from app.parts.maintenance.record import last_maintenance
from tests.fakes.arrow_writer import with_offsets
from tests.support.commands import run_command
from tests.support.environment import local_settings
from tests.unit.parts.iceberg.iceberg_bench import P0, P1, ROOT, IcebergBench, marks

Run = Callable[..., int]
BATCH = "data_readings_batch_0a1b2c3d4e5f607100000003"


@pytest.fixture
def bench(tmp_path: Path) -> IcebergBench:
    """Three files of Rome and two of Oslo, two days old."""
    bench = IcebergBench(tmp_path)
    member = bench.member()
    for number, place in enumerate(("Rome", "Oslo", "Rome", "Oslo", "Rome")):
        member.add_files([file_of_batch(bench, number, place)], "readings", marks(number))
    age(tmp_path, days=2)
    return bench


@pytest.fixture
def run(tmp_path: Path, bench: IcebergBench, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("app.parts.commands.find_tables.new_catalog", lambda *_: bench.new_member())
    variables = {
        "CATALOG_TYPE": "iceberg",
        "CATALOG_URL": "http://127.0.0.1:1",
        "HIVE_COLUMNS": "place",
        "METADATA_COLUMNS": "__partition,__offset,__timestamp",
    }
    return lambda *arguments, command="compact": run_command(local_settings(tmp_path, **variables), command, *arguments)


def file_of_batch(bench: IcebergBench, number: int, place: str = "Rome") -> DataFile:
    """The one file of a batch, which has ten offsets of each of two partitions."""
    offsets = [OffsetRange(tp, number * 10, number * 10 + 9) for tp in (P0, P1)]
    return bench.file(f"{BATCH}-{number}", with_offsets(pa.table({"n": [number]}), offsets), place)


def age(folder: Path, days: float) -> None:
    for path in (folder / ROOT).rglob("*.parquet"):
        os.utime(path, (time.time() - days * 86_400,) * 2)


def files(bench: IcebergBench) -> list[int]:
    """The rows of each file in the table."""
    return sorted(bench.table.inspect.files()["record_count"].to_pylist())


def test_small_files_of_a_partition_become_one(
    bench: IcebergBench, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = bench.rows()
    assert run("--dry-run") == 0
    assert files(bench) == [1, 1, 1, 1, 1]
    assert "5 files would become 2" in capsys.readouterr().out
    assert run() == 0
    said = capsys.readouterr().out
    assert "place=Rome: 3 files" in said
    assert "5 files became 2" in said
    done = last_maintenance(bench.store, ROOT).read()
    assert done
    assert (done.before, done.after, done.later) == (5, 2, 0)
    assert files(bench) == [2, 3]
    assert bench.rows() == before
    assert run() == 0
    assert "0 files became 0" in capsys.readouterr().out


def test_a_partition_keeps_the_newest_row_of_each_key_by_one_overwrite(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = ("--newest-by", "device")
    assert run(*newest) == 2
    assert "the table has no column 'device'" in capsys.readouterr().err

    def add(number: int, place: str, *devices: str | None) -> None:
        offsets = range(number * 10, number * 10 + len(devices))
        columns = {
            "n": pa.array(offsets, pa.int64()),
            "device": pa.array(devices, pa.string()),
            "__partition": pa.array([0] * len(devices), pa.int32()),
            "__offset": pa.array(offsets, pa.int64()),
            "__timestamp": pa.array(offsets, pa.timestamp("us", "UTC")),
        }
        table = with_offsets(pa.table(columns), [OffsetRange(P0, offsets[0], offsets[-1])])
        bench.member().add_files([bench.file(f"{BATCH}-{number}", table, place)], "readings", marks(number))

    def numbers(place: str) -> list[int]:
        return sorted(row["n"] for row in bench.rows("n", "place") if row["place"] == place)

    add(5, "Rome", "a", "b", None)
    add(6, "Rome", "a", "a")
    add(7, "Oslo", "a", "c")
    age(tmp_path, days=2)
    before = len(bench.table.snapshots())
    assert run(*newest) == 0
    said = capsys.readouterr().out
    assert "place=Rome: 5 files" in said
    assert "(2 rows removed)" in said
    assert numbers("Rome") == [0, 2, 4, 51, 52, 61], "rows of files without these columns stay"
    assert numbers("Oslo") == [1, 3, 70, 71]
    snapshots = bench.table.snapshots()[before:]
    assert [each.summary and each.summary.operation.value for each in snapshots] == ["overwrite"]

    assert run(*newest) == 0
    assert "0 files became 0" in capsys.readouterr().out
    add(8, "Rome", "b")
    age(tmp_path, days=2)
    assert run(*newest) == 0
    assert numbers("Rome") == [0, 2, 4, 52, 61, 80]


@pytest.mark.parametrize("renames", [["m:former", "n:m"], ["m:former", "n:m", "former:n"]], ids=["replaced", "swapped"])
def test_a_key_that_engines_have_renamed_is_refused(
    bench: IcebergBench, run: Run, capsys: pytest.CaptureFixture[str], renames: list[str]
) -> None:
    order = {"__partition": [0], "__offset": [70], "__timestamp": pa.array([0], pa.timestamp("us", "UTC"))}
    bench.member().add_files([bench.file("x", pa.table({"n": [1], "m": [2], **order}))], "readings", marks(7))
    for each in renames:
        with bench.table.update_schema() as update:
            update.rename_column(*each.split(":"))
    assert run("--newest-by", "m") == ConfigError.exit_code
    assert "an engine has renamed or replaced the column" in capsys.readouterr().err


def test_folders_and_young_files_and_the_target_are_respected(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--folder", "place=R*", "--dry-run") == 0
    assert "3 files would become 1" in capsys.readouterr().out
    assert run("--target-mb", "0", "--dry-run") == 0
    assert "0 files would become 0" in capsys.readouterr().out
    bench.member().add_files([bench.file("young", {"n": [9]})], "readings", marks(9))
    assert run() == 0
    assert "skipped: 1 file younger" in capsys.readouterr().out
    assert files(bench) == [1, 2, 3], "old ones beside it become one"
    assert run("--when-cold", "0h") == 0
    assert files(bench) == [2, 4]


def test_files_that_no_snapshot_has_are_listed(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.file("new on its way", {"n": [7]})
    bench.file("left over", {"n": [8]})
    os.utime(tmp_path / ROOT / "place=Rome" / "left over.parquet", (time.time() - 2 * 86_400,) * 2)
    assert run("--when-cold", "0h") == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("in no snapshot")]
    assert listed == [f"in no snapshot: {bench.store.uri}/{ROOT}/place=Rome/left over.parquet"], (
        "former snapshots have the merged ones"
    )
    bench.table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    assert run() == 0
    said = capsys.readouterr().out
    assert said.count("\nin no snapshot: ") == 6
    assert "6 files of" in said
    assert sorted(row["n"] for row in bench.rows("n")) == [0, 1, 2, 3, 4]


def test_an_audit_finds_the_batches_of_merged_files_without_their_snapshots(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    bench.member().add_files([file_of_batch(bench, 6)], "readings", marks(6))
    age(tmp_path, days=2)
    assert run() == 0
    assert files(bench) == [2, 4], "one is merged a second time"
    bench.table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    live = bench.table.inspect.files()["file_path"].to_pylist()
    for path in (tmp_path / ROOT).rglob("*.parquet"):
        if f"file://{path}" not in live:
            path.unlink()
    bench.member().add_files([bench.file("of an engine", {"n": [7]})], "readings", marks(7))
    file_of_batch(bench, 8)  # in no snapshot
    for how in ((), ("--offsets",)):
        capsys.readouterr()
        assert run("--json", *how, command="audit") == 0
        answer = json.loads(capsys.readouterr().out)
        found = [(each["first"], each["last"], each["batches"], each["missing"]) for each in answer["partitions"]]
        assert found == [(0, 69, 6, [{"first": 50, "last": 59, "dead_letters": 0}])] * 2
        assert answer["other_files"] == ["place=Rome/of an engine.parquet"]


@pytest.mark.parametrize("other", ["data/other/place=Rome", f"{ROOT}/other/place=Rome"])
def test_files_in_the_folder_of_another_table_are_left(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    """Else the merged file would become part of that table."""
    folder = tmp_path / other
    folder.mkdir(parents=True)
    for name in "ab":
        file = bench.file(name, {"n": [8]})
        assert file.path
        moved = file.path.rename(folder / file.path.name)
        there = replace(file, key=f"{other}/{moved.name}", path=moved, uri=f"file://{moved}")
        bench.member().add_files([there], "readings", marks(ord(name)))
    (folder / "c.parquet").write_bytes((folder / "a.parquet").read_bytes())
    for path in folder.iterdir():
        os.utime(path, (time.time() - 2 * 86_400,) * 2)
    assert run() == 0
    said = capsys.readouterr().out
    assert "skipped: 2 files outside the table's folder" in said
    assert "in no snapshot: " + str(folder) not in said.replace("file://", "")
    assert sorted(path.name for path in folder.iterdir()) == ["a.parquet", "b.parquet", "c.parquet"]
    assert files(bench) == [1, 1, 2, 3]


def test_folders_that_an_engine_makes_are_the_tables_own(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_over = tmp_path / ROOT / "data/0110/1010/00001.parquet"
    left_over.parent.mkdir(parents=True)
    (tmp_path / ROOT / f"place=Rome/{BATCH}-0.parquet").rename(left_over)
    assert run("--dry-run", "--folder", "data*") == 0
    assert f"in no snapshot: {bench.store.uri}/{ROOT}/data/0110/1010/00001.parquet" in capsys.readouterr().out
