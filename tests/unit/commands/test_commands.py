"""What ``python main.py`` says to its arguments, and ``replay`` as far as it needs no Kafka."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError, KafkaException
from quixstreams.kafka import Producer

from app import commands
from app.bad_records import dead_letter
from app.commands.replay.command import replay
from app.commands.replay.sender import Sender
from app.config.settings import Settings
from app.errors import ConfigError, FatalError, RetryableError
from app.model import Rejected, TopicPartition
from dev.server import free_ports
from tests.support.environment import load
from tests.support.journals import keep_journal

MAIN = Path(__file__).parents[3] / "main.py"
TP = TopicPartition("readings", 3)


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    former = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, former)


def settings(lake: Path, **variables: str) -> Settings:
    base = {"STORAGE_URL": f"file://{lake}", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "input": "readings"}
    return load(base, **variables)


def rejected(offset: int, reason: str = "no JSON") -> Rejected:
    return Rejected(TP, offset, 1_700_000_000_000, b"k", b"v", None, reason)


def write_letter(lake: Path, name: str, records: Sequence[Rejected]) -> Path:
    folder = lake / "data/_dead_letter/readings"
    folder.mkdir(parents=True, exist_ok=True)
    dead_letter.write(records, folder / name)
    return folder / name


def main(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "S3_", "Quix_"))}
    return subprocess.run(
        [sys.executable, str(MAIN), *arguments],
        env={**clean, "KAFKA_BOOTSTRAP_SERVERS": "", "S3_BUCKET": "", "STORAGE_URL": "", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_unknown_command_is_told_with_those_there_are() -> None:
    ended = main("reply")
    assert ended.returncode == 2
    assert ended.stdout == "ERROR! reading the arguments: there is no command 'reply'. Use none to run, or: " + (
        ", ".join(commands.COMMANDS) + "\n"
    )
    assert ended.stderr == ""


def test_a_command_reads_the_settings_and_answers(tmp_path: Path) -> None:
    ended = main("replay", STORAGE_URL=f"file://{tmp_path}", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1", input="readings")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"no dead letter in file://{tmp_path}/data/_dead_letter/readings/\n"


def test_wrong_settings_are_told_as_without_a_command() -> None:
    ended = main("replay")
    assert ended.returncode == 2
    assert "KAFKA_BOOTSTRAP_SERVERS: must be set" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--form", "x"], "unrecognized arguments: --form x"),
        (["--since", "yesterday"], "argument --since: 'yesterday' is no date or time such as 2025-03-04 or "),
        (["--dry-run", "--delete"], "argument --delete: not allowed with argument --dry-run"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert commands.run("replay", settings(tmp_path), arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ERROR! reading the arguments: {message}")
    assert said.count("\n") == 1


def test_a_dry_run_counts_by_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_letter(tmp_path, "a.parquet", [rejected(1), rejected(2, "a null value"), rejected(3)])
    kept = write_letter(tmp_path, "b.parquet", [rejected(4)])
    assert commands.run("replay", settings(tmp_path), ["--dry-run"]) == 0
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
    assert commands.run("replay", settings(tmp_path), ["--dry-run"]) == 0
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
    assert commands.run("replay", settings(tmp_path), ["--dry-run", *options]) == 0
    assert capsys.readouterr().out.startswith(f"{count} record{'' if count == 1 else 's'} selected in 1 file")


def test_a_broker_that_is_away_is_worth_another_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_letter(tmp_path, "a.parquet", [rejected(1)])
    broker = f"127.0.0.1:{free_ports(1)[0]}"
    with patch.dict(cast(Any, commands.COMMANDS), {"replay": partial(replay, broker_seconds=0.0)}):
        code = commands.run("replay", settings(tmp_path, KAFKA_BOOTSTRAP_SERVERS=broker), ["--delete"])
    assert code == 75
    assert f"ERROR! connecting to Kafka at {broker}: " in capsys.readouterr().err
    assert path.exists()


def test_a_broken_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_letter(tmp_path, "a.parquet", [rejected(1)]).write_bytes(b"broken")
    assert commands.run("replay", settings(tmp_path), ["--dry-run"]) == 1
    assert capsys.readouterr().err.startswith("ERROR! reading a.parquet of the dead letter: ")


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "ERROR! replay was stopped before its end\n"),
        (KeyError("x"), 1, "ERROR! running replay: KeyError('x'). Please report this as a bug; LOGLEVEL=DEBUG shows"),
    ],
)
def test_no_stack_trace_stands_in_for_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raised: BaseException, code: int, message: str
) -> None:
    def fail(*_: object) -> int:
        raise raised

    with patch.dict(cast(Any, commands.COMMANDS), {"replay": fail}):
        assert commands.run("replay", settings(tmp_path), []) == code
    assert capsys.readouterr().err.startswith(message)


class Fate:
    """A producer whose deliveries all end in one way, when it is flushed."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self._error = error
        self._waiting: list[Any] = []

    def produce(self, _topic: str, *, on_delivery: Any, **_message: object) -> None:
        self._waiting.append(on_delivery)

    def flush(self, _timeout: float) -> int:
        for on_delivery in self._waiting:
            on_delivery(self._error, None)
        self._waiting.clear()
        return 0


class Refusing(Fate):
    """A producer that takes nothing."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._raised = error

    def produce(self, *_: object, **__: object) -> None:
        raise self._raised


def sender(producer: Fate, *, workspace: str = "", to: str | None = None) -> Sender:
    return Sender(cast(Producer, producer), ["readings", "acme-fixed"], workspace=workspace, to=to)


@pytest.mark.parametrize(
    ("code", "error"),
    [(KafkaError._MSG_TIMED_OUT, RetryableError), (KafkaError.MSG_SIZE_TOO_LARGE, FatalError)],
)
def test_a_delivery_that_fails_is_told_with_its_record(code: int, error: type[Exception]) -> None:
    line = sender(Fate(KafkaError(code)))
    line.send(rejected(7))
    with pytest.raises(error, match="sending readings/3/7 to topic readings: "):
        line.finish()
    assert line.acknowledged == 0


def test_only_acknowledged_records_count() -> None:
    line = sender(Fate())
    line.send(rejected(7))
    assert line.acknowledged == 0
    line.finish()
    assert line.acknowledged == 1


def test_what_the_client_refuses_at_once_is_told_with_its_record() -> None:
    with pytest.raises(FatalError, match="sending readings/3/7 to topic readings"):
        sender(Refusing(KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)))).send(rejected(7))
    with pytest.raises(RetryableError, match="Kafka takes no more records"):
        sender(Refusing(BufferError())).send(rejected(7))


def test_topics_must_be_there_and_may_have_the_name_the_platform_gives_them() -> None:
    sender(Fate(), workspace="acme", to="fixed").send(rejected(7))
    with pytest.raises(ConfigError, match=r"finding topic fixed: it does not exist\. Create it, or name another"):
        sender(Fate(), workspace="other", to="fixed")
