"""``rewrite`` as far as it needs no Spark: what it finds, and what it tells of each file."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.commands.rewrite.command import _run
from app.commands.rewrite.rewrite_file import Rewriter, Rewritten, SkippedError
from app.commands.rewrite.stored_rows import NotPossibleError
from app.config.settings import Settings
from app.errors import FatalError, RetryableError
from app.table.schema import TableSchema
from tests.fakes.memory_catalog import MemoryCatalog
from tests.support.commands import run_command
from tests.support.environment import load
from tests.support.journals import keep_journal

ROOT = "data/readings"
DOUBLE = TableSchema({"v": pa.float64()})


def settings(lake: Path, **variables: str) -> Settings:
    base = {"STORAGE_URL": f"file://{lake}", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}
    return load(base, HIVE_COLUMNS="place", **variables)


def put(lake: Path, key: str, columns: dict[str, Any]) -> Path:
    path = lake / ROOT / key
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def put_schema(lake: Path, schema: TableSchema) -> Path:
    path = lake / ROOT / "_journal" / "schema.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(schema.to_document()))
    return path


def dry_run(lake: Path, capsys: pytest.CaptureFixture[str], *arguments: str, **variables: str) -> list[str]:
    assert run_command(settings(lake, **variables), "rewrite", "--dry-run", *arguments) == 0
    return capsys.readouterr().out.splitlines()


def test_a_dry_run_tells_what_differs_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = put_schema(tmp_path, DOUBLE)
    put(tmp_path, "place=a/x.parquet", {"v": [1], "new": ["x"]})
    put(tmp_path, "place=b/x.parquet", {"v": [0.5]})
    put(tmp_path, "place=b/.vidx/x.parquet", {"v": [1]})
    put(tmp_path, "place=b/y.parquet", {"other": [1]})
    before = schema.read_bytes()

    assert dry_run(tmp_path, capsys) == [
        f"{ROOT}/place=a/x.parquet: v bigint → double",
        f"1 of 3 files in file://{tmp_path}/{ROOT} would be rewritten",
    ]
    assert schema.read_bytes() == before
    assert not list(tmp_path.rglob(".upload-*"))


def test_files_of_batches_that_are_undone_or_not_finished_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_schema(tmp_path, DOUBLE)
    pending, revoked = (put(tmp_path, f"place=a/{name}.parquet", {"v": [1]}) for name in ("pending", "revoked"))
    put(tmp_path, "place=a/x.parquet", {"v": [1]})
    keep_journal(tmp_path, ROOT, pending=pending, revoked=revoked)
    assert dry_run(tmp_path, capsys) == [
        f"{ROOT}/place=a/x.parquet: v bigint → double",
        f"1 of 1 file in file://{tmp_path}/{ROOT} would be rewritten",
    ]


def test_a_file_replaced_by_a_run_that_was_cut_off_is_told_to_the_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the table's schema by now, and is no file to rewrite."""
    put_schema(tmp_path, DOUBLE)
    path = put(tmp_path, "place=a/x.parquet", {"v": [0.5]})
    key = f"{ROOT}/place=a/x.parquet"
    note = tmp_path / ROOT / "_journal" / "rewrite-0-1.json"
    note.write_text(json.dumps({"version": 1, "key": key, "replaces": "the one before", "catalog": True}))
    catalog = MemoryCatalog()
    monkeypatch.setattr(import_module("app.commands.rewrite.command"), "new_catalog", lambda *_: catalog)

    assert dry_run(tmp_path, capsys)[0] == "1 file of a run that was cut off: the catalog would be updated for them"
    assert note.exists()
    assert run_command(settings(tmp_path), "rewrite") == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 file of a run that was cut off: the catalog knows them now",
        f"nothing to do: the schema of each of 1 file in file://{tmp_path}/{ROOT} is the table's",
    ]
    [[file]] = catalog.requests
    assert (file.key, file.size) == (key, path.stat().st_size)
    assert not note.exists()


def test_a_table_that_has_no_schema_is_measured_by_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "place=a/x.parquet", {"v": [1]})
    put(tmp_path, "place=b/x.parquet", {"v": [0.5]})
    assert dry_run(tmp_path, capsys)[0] == f"{ROOT}/place=a/x.parquet: v bigint → double"
    assert not (tmp_path / ROOT / "_journal").exists()


def test_a_file_that_is_wider_than_the_table_widens_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_schema(tmp_path, TableSchema({"v": pa.int64()}))
    put(tmp_path, "place=a/x.parquet", {"v": [1]})
    put(tmp_path, "place=b/x.parquet", {"v": [0.5]})
    assert dry_run(tmp_path, capsys)[0] == f"{ROOT}/place=a/x.parquet: v bigint → double"


def test_a_type_that_the_user_fixed_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_schema(tmp_path, TableSchema({"v": pa.int64()}))
    put(tmp_path, "place=a/x.parquet", {"v": [1]})
    assert dry_run(tmp_path, capsys, COLUMN_TYPES="v:double")[0].endswith("v bigint → double")


def test_a_fixed_type_is_not_widened_by_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_schema(tmp_path, TableSchema({"v": pa.int64()}))
    put(tmp_path, "place=a/x.parquet", {"v": [0.5]})
    assert dry_run(tmp_path, capsys, COLUMN_TYPES="v:bigint")[0].endswith("v double → bigint")


def test_folders_are_looked_at_once_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_schema(tmp_path, DOUBLE)
    for place in ("a", "ab", "b"):
        put(tmp_path, f"place={place}/year=1/x.parquet", {"v": [1]})
    folders = ("place=a", "/place=a/year=1/", "place=b", "place=b")
    arguments = [part for folder in folders for part in ("--folder", folder)]
    assert dry_run(tmp_path, capsys, *arguments) == [
        f"{ROOT}/place=a/year=1/x.parquet: v bigint → double",
        f"{ROOT}/place=b/year=1/x.parquet: v bigint → double",
        f"2 of 2 files in file://{tmp_path}/{ROOT} would be rewritten",
    ]


def test_a_folder_without_files_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "place=a/x.parquet", {"v": [1]})
    assert run_command(settings(tmp_path), "rewrite", "--folder", "place=x") == 2
    assert f"listing file://{tmp_path}/{ROOT}/place=x/: there are no data files" in capsys.readouterr().err


def test_where_all_is_well_nothing_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "place=a/x.parquet", {"v": [1]})
    assert run_command(settings(tmp_path), "rewrite") == 0
    said = capsys.readouterr().out
    assert said == f"nothing to do: the schema of each of 1 file in file://{tmp_path}/{ROOT} is the table's\n"


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "place=a/x.parquet", {"v": [1]}).write_bytes(b"PAR1 not really, but long enough to be one PAR1")
    put_schema(tmp_path, DOUBLE)
    assert run_command(settings(tmp_path), "rewrite", "--dry-run") == 1
    assert f"{ROOT}/place=a/x.parquet: it is no Parquet file" in capsys.readouterr().err


class Scripted:
    """A rewriter that gives or raises what it is told to."""

    def __init__(self, *outcomes: Rewritten | BaseException) -> None:
        self._outcomes = list(outcomes)

    def rewrite(self, key: str) -> Rewritten:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def run(*outcomes: Rewritten | BaseException, files: int = 3) -> None:
    plan = [(f"t/{number}.parquet", "v bigint → double") for number in range(files)]
    _run(cast("Rewriter", Scripted(*outcomes)), plan)


DONE = Rewritten(1_000, 2_000, 1_500, rescued=0, is_last=False)


def test_each_file_is_told_and_all_together(capsys: pytest.CaptureFixture[str]) -> None:
    run(DONE, SkippedError("it was deleted meanwhile"), Rewritten(1, 2, 3, rescued=1, is_last=False))
    assert capsys.readouterr().out.splitlines() == [
        "1/3 t/0.parquet: v bigint → double; 1,000 rows, 2,000 → 1,500 bytes",
        "2/3 t/1.parquet: v bigint → double; skipped: it was deleted meanwhile",
        "3/3 t/2.parquet: v bigint → double; 1 row, 2 → 3 bytes, 1 value to _rescued_data",
        "2 files rewritten, 1 skipped, 0 left as they are, 0 to do; 1 value to _rescued_data",
    ]


def test_files_that_are_left_are_told_and_make_it_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FatalError, match="1 file could not be rewritten"):
        run(DONE, NotPossibleError("its column 't' has the type time64[us]"), DONE)
    said = capsys.readouterr().out.splitlines()
    assert said[1].endswith("left as it is: its column 't' has the type time64[us]")
    assert said[3] == "2 files rewritten, 0 skipped, 1 left as they are, 0 to do; 0 values to _rescued_data"


@pytest.mark.parametrize(
    ("outcome", "raised", "done"),
    [
        (RetryableError("downloading", "no answer"), RetryableError, 1),
        (KeyboardInterrupt(), KeyboardInterrupt, 1),
        (Rewritten(1, 2, 3, rescued=0, is_last=True), KeyboardInterrupt, 2),
    ],
)
def test_an_end_in_between_tells_what_was_done(
    capsys: pytest.CaptureFixture[str], outcome: Rewritten | BaseException, raised: type[BaseException], done: int
) -> None:
    with pytest.raises(raised):
        run(DONE, outcome, DONE)
    last = capsys.readouterr().out.splitlines()[-1]
    noun = "file" if done == 1 else "files"
    assert last == (
        f"{done} {noun} rewritten, 0 skipped, 0 left as they are, {3 - done} to do; 0 values to _rescued_data"
    )
