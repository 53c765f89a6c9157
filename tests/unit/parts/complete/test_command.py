"""How far partitions are, by the journals in a local folder and by what a broker tells."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError

from app.errors import FatalError
from app.journal.entry import topic_folder
from app.journal.journal import Journal, PartitionClaim
from app.journal.log import AssignmentLog, Progress
from app.kafka.questions import GroupOffsets
from app.model import DataFile, TopicPartition
from app.parts.complete import command
from app.parts.complete.command import compare
from app.storage.local.store import LocalStore
from tests.fakes.kafka_message import KafkaMessage
from tests.support.commands import run_command
from tests.support.environment import local_settings

TP, OTHER = TopicPartition("readings", 0), TopicPartition("readings", 1)
MOMENT = datetime(2026, 11, 28, tzinfo=UTC)


class Kafka(GroupOffsets):
    """Two partitions, of which the second is empty. Records at ``records``, and from 10 on of the moment or later."""

    def __init__(self, records: Collection[int], readable: int, committed: int | None) -> None:
        self.records, self.readable, self.committed = records, readable, committed
        self.consumer = self

    def topic_id(self, _: str) -> str:
        return "id"

    def cluster_id(self) -> str:
        return "cluster"

    def beginnings(self, _: str) -> dict[TopicPartition, int]:
        return {TP: 0, OTHER: 0}

    def ends(self, _: str) -> dict[TopicPartition, int]:
        return {TP: self.readable, OTHER: 0}

    def uncommitted_ends(self, _: str) -> dict[TopicPartition, int]:
        return {TP: 20, OTHER: 0}

    def since(self, moment: datetime, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {**ends, TP: 10}

    def committed_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {} if self.committed is None else {TP: self.committed}

    def assign(self, tps: Sequence[Any]) -> None:
        (self.first,) = (each.offset for each in tps)

    def consume(self, *_: object) -> list[KafkaMessage]:
        records = [KafkaMessage(b"{}", of_topic=TP.topic, at=offset) for offset in self.records if offset >= self.first]
        return [*records, KafkaMessage(None, of_topic=TP.topic, at=20, failure=KafkaError(KafkaError._PARTITION_EOF))]


def progress(end: int, to: int | None = None, topic_id: str = "id", **more: Any) -> Progress:
    return Progress(topic=TP.topic, partition=0, end=end, first=to and end + 1, to=to, topic_id=topic_id, **more)


FILES = (DataFile("data/readings/a.parquet", {}, rows=1, size=1),)


@pytest.mark.parametrize(
    ("state", "owned", "records", "readable", "committed", "expected"),
    [
        ("done", progress(9), range(20), 20, 10, ("complete", 10)),
        ("done", progress(8), range(20), 20, 20, ("incomplete", 9)),
        ("done", progress(6), {*range(7), *range(12, 20)}, 20, 7, ("complete", 7)),  # then compacted, or a marker
        ("pending", progress(5, to=12), range(20), 20, 6, ("incomplete", 6)),
        ("pending", progress(9, to=12), range(20), 20, 10, ("complete", 10)),
        ("kept", progress(12, to=12), range(20), 20, 6, ("unsettled", 0)),
        ("kept", progress(12), range(20), 20, 6, ("complete", 13)),  # other partitions are in the batch
        ("done", progress(30, topic_id="former"), range(20), 20, None, ("recreated", -1)),
        ("done", progress(4), range(20), 5, 5, ("open transaction", 5)),
        ("done", progress(9, cluster_id="former"), range(20), 20, None, ("recreated", -1)),
        ("done", progress(20), range(20), 20, 20, ("recreated", -1)),  # or Kafka lost records
        ("done", progress(20, topic_id=""), (), 20, 20, ("recreated", -1)),
        ("begun", None, range(20), 20, 10, ("complete", 10)),  # the group began at this offset
        ("begun", None, range(20), 20, 9, ("unclaimed", 9)),
        ("begun", None, range(20), 20, None, ("unclaimed", 0)),
        ("done", None, range(20), 20, 20, ("unclaimed", 0)),  # a deleted claim, and a tool has set the offset
        ("done", None, range(12, 20), 20, None, ("complete", 0)),
        ("", None, range(20), 20, 20, ("unclaimed", 0)),  # another table's name, or the table was deleted
        ("lost", progress(9), (), 20, 10, ("damaged", -1)),
        ("short", progress(9), (), 20, 10, ("damaged", -1)),
    ],
)
def test_a_partition_is_complete_if_the_log_has_its_last_record_before_the_moment(
    tmp_path: Path,
    state: Any,
    owned: Progress | None,
    records: Collection[int],
    readable: int,
    committed: int | None,
    expected: tuple[str, int],
) -> None:
    journal = Journal(LocalStore(tmp_path), "data/readings", "group")
    if state:
        other = Progress(topic=OTHER.topic, partition=1, end=-1, topic_id="id")
        tps = (owned, other) if owned else (other,)
        for each in tps:
            owner = "b" if state == "lost" and each == owned else "a"
            journal.claim(each.tp).write(PartitionClaim(seq=1, owner=owner))
        batch = {"state": state, "files": FILES} if state in ("pending", "kept") else {}
        listed = tps[1:] if state == "short" else tps
        journal.log("a").write(AssignmentLog(seq=1, owner="a", writer="a", partitions=listed, **batch))
    if state == "begun":
        path = tmp_path / topic_folder("data/readings", "group", TP.topic) / "first-offsets"
        path.write_text('{"topic_id": "id", "cluster_id": "", "since": 0, "offsets": {"0": 10, "1": 0}}')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    first, second = compare(journal, Kafka(records, readable, committed), TP.topic, MOMENT)
    assert (first["state"], first["reached"], first["partition"]) == (*expected, 0)
    assert (second["state"], second["partition"]) == ("complete", 1)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.json")}


def test_only_missing_records_end_with_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_list_partitions", Mock(side_effect=[FatalError("asking", "no right"), ValueError]))
    assert [run_command(local_settings(tmp_path), "complete", "--to", "2026-01-01") for _ in range(2)] == [2, 2]


def test_the_future_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(local_settings(tmp_path), "complete", "--to", "2999-01-01") == 2
    assert "--to 2999-01-01T00:00:00+00:00 is in the future" in capsys.readouterr().err


def test_a_missing_topic_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "listing_topics", lambda _: lambda: ["a"])
    assert run_command(local_settings(tmp_path, input="a,b"), "complete", "--to", "2026-01-01") == 2
    assert "the input topic 'b': it does not exist" in capsys.readouterr().err
