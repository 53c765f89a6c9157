"""``replay`` as far as it needs no Kafka: which records it selects, and what it says where it cannot send them."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from app.bad_records import dead_letter
from app.model import Rejected, TopicPartition
from app.reason_texts import Reason
from dev.server import free_ports
from tests.support.commands import run_command
from tests.support.environment import local_settings
from tests.support.journals import keep_journal

TP = TopicPartition("readings", 3)


def rejected(offset: int, reason: str = "no JSON") -> Rejected:
    return Rejected(TP, offset, 1_700_000_000_000, b"k", b"v", None, Reason(reason))


def write_letter(lake: Path, name: str, records: Sequence[Rejected]) -> Path:
    folder = lake / "data/_dead_letter/readings"
    folder.mkdir(parents=True, exist_ok=True)
    dead_letter.write(records, folder / name)
    return folder / name


def test_a_dry_run_counts_by_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_letter(tmp_path, "a.parquet", [rejected(1), rejected(2, "a null value"), rejected(3)])
    kept = write_letter(tmp_path, "b.parquet", [rejected(4)])
    assert run_command(local_settings(tmp_path), "replay", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"4 records selected in 2 files of file://{tmp_path}/data/_dead_letter/readings/",
        "         3  no JSON",
        "         1  a null value",
    ]
    assert kept.exists()


def test_records_of_batches_that_are_undone_or_not_finished_are_left_where_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_letter(tmp_path, "a.parquet", [rejected(1)])
    under_way = write_letter(tmp_path, "b.parquet", [rejected(2)])
    undone = write_letter(tmp_path, "c.parquet", [rejected(2)])
    keep_journal(tmp_path, "data/readings", pending=under_way, revoked=undone)
    assert run_command(local_settings(tmp_path), "replay", "--dry-run") == 0
    assert capsys.readouterr().out.startswith("1 record selected in 1 file")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--reason", "null"], 1),
        (["--reason", "other"], 0),
        (["--since", "2000-01-01"], 3),
        (["--since", "2999-01-01T00:00:00+02:00"], 0),
        (["--until", "2000-01-01"], 0),
        (["--until", "2999-01-01", "--reason", "JSON"], 2),
    ],
)
def test_options_select_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], count: int
) -> None:
    write_letter(tmp_path, "a.parquet", [rejected(1), rejected(2, "a null value"), rejected(3)])
    assert run_command(local_settings(tmp_path), "replay", "--dry-run", *options) == 0
    assert capsys.readouterr().out.startswith(f"{count} record{'' if count == 1 else 's'} selected in 1 file")


def test_a_broker_that_is_away_is_worth_another_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_letter(tmp_path, "a.parquet", [rejected(1)])
    broker = f"127.0.0.1:{free_ports(1)[0]}"
    with patch("app.parts.replay.command._BROKER_SECONDS", 0.0):
        code = run_command(local_settings(tmp_path, KAFKA_BOOTSTRAP_SERVERS=broker), "replay", "--delete")
    assert code == 75
    assert f"ERROR! connecting to Kafka at {broker}: " in capsys.readouterr().err
    assert path.exists()


def test_a_broken_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_letter(tmp_path, "a.parquet", [rejected(1)]).write_bytes(b"broken")
    assert run_command(local_settings(tmp_path), "replay", "--dry-run") == 1
    assert capsys.readouterr().err.startswith("ERROR! reading a.parquet of the dead letter: ")
