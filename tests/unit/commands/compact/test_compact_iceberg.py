"""``compact`` for an Iceberg table: which files it merges, and what it lists."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.model import BatchPart, OffsetRange
from app.table.last_compaction import last_compaction
from app.table.layout import file_name
from tests.fakes.arrow_writer import with_offsets
from tests.support.commands import run_command
from tests.unit.catalog.iceberg_bench import P0, P1, ROOT, IcebergBench, marks
from tests.unit.commands.local import local_settings

Run = Callable[..., int]
OWNER = "0a1b2c3d4e5f607100000003"


@pytest.fixture
def bench(tmp_path: Path) -> IcebergBench:
    """Three files of Rome and two of Oslo, two days old."""
    bench = IcebergBench(tmp_path)
    member = bench.member()
    for number, place in enumerate(("Rome", "Oslo", "Rome", "Oslo", "Rome")):
        member.add_files([bench.file(f"f{number}", {"n": [number]}, place)], "readings", marks(number))
    age(tmp_path, days=2)
    return bench


@pytest.fixture
def new_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[IcebergBench], Run]:
    def new(bench: IcebergBench) -> Run:
        for module in ("app.commands.compact.iceberg", "app.commands.audit.command", "app.service.lake"):
            monkeypatch.setattr(f"{module}.new_catalog", lambda *_: bench.new_member())
        variables = {"CATALOG_TYPE": "iceberg", "CATALOG_URL": "http://127.0.0.1:1", "HIVE_COLUMNS": "place"}
        settings = local_settings(tmp_path, **variables)
        return lambda *arguments, command="compact": run_command(settings, command, *arguments)

    return new


@pytest.fixture
def run(bench: IcebergBench, new_run: Callable[[IcebergBench], Run]) -> Run:
    return new_run(bench)


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
    done = last_compaction(bench.store, ROOT).read()
    assert done
    assert (done.before, done.after, done.later) == (5, 2, 0)
    assert files(bench) == [2, 3]
    assert bench.rows() == before
    assert run() == 0
    assert "0 files became 0" in capsys.readouterr().out


def test_folders_and_young_files_and_the_target_are_respected(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--folder", "place=R*", "--dry-run") == 0
    assert "3 files would become 1" in capsys.readouterr().out
    assert run("--target-mb", "0", "--dry-run") == 0
    assert "0 files would become 0" in capsys.readouterr().out
    bench.member().add_files([bench.file("young", {"n": [9]})], "readings", marks(9))
    assert run() == 0
    assert "left for later: 1 file younger" in capsys.readouterr().out
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], new_run: Callable[[IcebergBench], Run]
) -> None:
    bench = IcebergBench(tmp_path)
    member, run = bench.member(), new_run(bench)

    def add(*batches: int) -> None:
        for batch in batches:
            offsets = [OffsetRange(tp, batch * 10, batch * 10 + 9) for tp in (P0, P1)]
            for number, place in enumerate(("Rome", "Oslo")):
                rows = with_offsets(pa.table({"n": [batch], "__offset": [batch * 10]}), offsets)
                file = bench.file(f"data_readings_batch_{OWNER}-{batch}", rows, place)
                member.add_files([file], "readings", marks(batch * 2 + number, tps=(P0, P1)))
        age(tmp_path, days=2)

    def audit(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run("--json", *arguments, command="audit") == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    def expire() -> None:
        bench.table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
        live = bench.table.inspect.files()["file_path"].to_pylist()
        for path in (tmp_path / ROOT).rglob("data_*.parquet"):
            if f"file://{path}" not in live:
                path.unlink()

    add(0, 1, 3)
    assert run() == 0
    add(4)
    assert run() == 0, "with files that were merged before"
    expire()
    assert files(bench) == [4, 4]
    for how in ((), ("--offsets",)):
        answer = audit(*how)
        assert answer["other_files"] == []
        assert [(each["first"], each["last"], each["batches"], each["missing"]) for each in answer["partitions"]] == [
            (0, 49, 4, [{"first": 20, "last": 29, "dead_letters": 0}])
        ] * 2


def test_an_audit_looks_at_the_files_of_the_newest_snapshot(
    bench: IcebergBench, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine has named some of them, and has left files of former snapshots in the folder."""
    part = BatchPart(OffsetRange(P0, 0, 9), OWNER, 0)
    bench.file(file_name([part]).removesuffix(".parquet"), {"n": [1]})
    assert run("--json", command="audit") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["partitions"], answer["other_files_count"]) == ([], 5)


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
    assert "left: 2 files outside of the table's folder" in said
    assert "in no snapshot: " + str(folder) not in said.replace("file://", "")
    assert sorted(path.name for path in folder.iterdir()) == ["a.parquet", "b.parquet", "c.parquet"]
    assert files(bench) == [1, 1, 2, 3]


def test_folders_that_an_engine_makes_are_the_tables_own(
    bench: IcebergBench, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_over = tmp_path / ROOT / "data/0110/1010/00001.parquet"
    left_over.parent.mkdir(parents=True)
    (tmp_path / ROOT / "place=Rome/f0.parquet").rename(left_over)
    assert run("--dry-run", "--folder", "data*") == 0
    assert f"in no snapshot: {bench.store.uri}/{ROOT}/data/0110/1010/00001.parquet" in capsys.readouterr().out
