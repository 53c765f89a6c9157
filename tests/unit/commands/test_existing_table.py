"""``audit`` and ``compact`` of a table that is not there."""

from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.unit.commands.local import local_settings


def run(lake: Path, command: str, table: str) -> int:
    return run_command(local_settings(lake, TABLE_NAME=table), command)


def put(lake: Path, key: str) -> None:
    path = lake / "data" / key
    path.parent.mkdir(parents=True)
    path.write_text("{}")


@pytest.mark.parametrize("command", ["audit", "compact"])
def test_a_table_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    put(tmp_path, "readings/x.json")
    put(tmp_path, "_dead_letter/readings/x.json")
    assert run(tmp_path, command, "reading") == 2
    assert capsys.readouterr() == (
        "",
        f"ERROR! looking for the table: there is nothing in file://{tmp_path}/data/reading. "
        "Check TABLE_NAME (without it, input names the table), S3_PREFIX and the store\n",
    )


def test_a_table_that_has_a_journal_or_a_dead_letter_alone_exists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "new/_journal/schema.json")
    put(tmp_path, "_dead_letter/bad/x.parquet")
    assert [run(tmp_path, "audit", table) for table in ("new", "bad")] == [0, 0]
    assert capsys.readouterr().err == ""
