"""``audit`` and ``rewrite`` of a table that is not there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import FatalError
from app.storage.base import StoredObject
from app.storage.local.store import LocalStore
from tests.support.commands import run_command
from tests.support.environment import load


def run(lake: Path, command: str, table: str) -> int:
    settings = load({"STORAGE_URL": f"file://{lake}", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, TABLE_NAME=table)
    return run_command(settings, command)


def put(lake: Path, key: str) -> None:
    path = lake / "data" / key
    path.parent.mkdir(parents=True)
    path.write_text("{}")


@pytest.mark.parametrize("command", ["audit", "rewrite"])
def test_a_misspelled_table_is_refused_with_those_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for table in ("alarms", "readings", "_dead_letter/readings"):
        put(tmp_path, f"{table}/x.json")
    assert run(tmp_path, command, "reading") == 2
    assert capsys.readouterr() == (
        "",
        f"ERROR! looking for the table: there is nothing in file://{tmp_path}/data/reading; beside it: readings, "
        "alarms. Check TABLE_NAME (without it, input names the table), S3_PREFIX and the store\n",
    )


def test_a_store_without_any_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "audit", "readings") == 2
    assert "; there is no table beside it either. Check TABLE_NAME" in capsys.readouterr().err


def test_many_tables_are_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(7):
        put(tmp_path, f"t{number}/x.json")
    assert run(tmp_path, "audit", "other") == 2
    assert "; beside it: t0, t1, t2, t3, t4, …. Check" in capsys.readouterr().err


def test_a_table_that_has_a_journal_or_a_dead_letter_alone_exists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "new/_journal/schema.json")
    put(tmp_path, "_dead_letter/bad/x.parquet")
    assert [run(tmp_path, "audit", table) for table in ("new", "bad")] == [0, 0]
    assert capsys.readouterr().err == ""


def test_keys_that_may_list_the_table_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = LocalStore.list

    def list_below_the_table(store: LocalStore, prefix: str) -> Iterator[StoredObject]:
        if prefix == "data/":
            raise FatalError("listing", "Access Denied")
        return listed(store, prefix)

    monkeypatch.setattr(LocalStore, "list", list_below_the_table)
    assert run(tmp_path, "audit", "readings") == 2
    assert "; what lies beside it cannot be listed. Check TABLE_NAME" in capsys.readouterr().err
