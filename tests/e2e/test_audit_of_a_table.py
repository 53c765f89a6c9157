"""Where each row comes from, as columns of its own, and what ``audit`` makes of them and of the files' names."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from dev.minio import LocalMinio
from tests.e2e.auditor import Auditor
from tests.e2e.conftest import NewScenario
from tests.e2e.lake import mirror, offsets_of_batch
from tests.e2e.scenario import Scenario, s3_store

FIRST_MS = 1_704_067_200_000
PER_PORTION = 200  # records
PORTIONS = 3
PLACES = ("Berlin", "Lisbon", "a/b=c")
COPIES = "c0c0c0c0" * 3  # the owner in the name of a copy
METADATA = "__topic,__partition,__offset,__timestamp,__headers"
BAD = PER_PORTION + 101  # the record, in the second portion, that is no JSON

HEADERS: tuple[list[tuple[str, bytes | None]] | None, ...] = (
    None,
    [("trace", b"\x00\xff"), ("source", "Köln".encode()), ("trace", None)],  # names may repeat
    [("", b"")],
)

Row = tuple[Any, ...]


def timestamp(n: int) -> int:
    return FIRST_MS + n * 86_399_999


def produce(scenario: Scenario, numbers: range) -> None:
    """Records of these numbers, even ones to partition 0, odd ones to partition 1."""
    producer = Producer({"bootstrap.servers": scenario.kafka.bootstrap_servers, "enable.idempotence": True})
    for n in numbers:
        value = b"no JSON" if n == BAD else json.dumps({"n": n, "place": PLACES[n % len(PLACES)]}).encode()
        headers = HEADERS[n % len(HEADERS)]
        producer.produce(
            scenario.topic, value, b"key", n % 2, timestamp=timestamp(n), **({"headers": headers} if headers else {})
        )
    assert producer.flush(60) == 0


def offsets_of(findings: Sequence[dict[str, Any]], kind: str) -> dict[int, set[int]]:
    """The offsets that are doubled, or missing, by partition."""
    return {
        each["partition"]: {offset for found in each[kind] for offset in range(found["first"], found["last"] + 1)}
        for each in findings
    }


@pytest.mark.java
def test_rows_tell_where_they_come_from_and_an_audit_finds_what_is_wrong(
    new_scenario: NewScenario, s3_server: LocalMinio, bucket: str
) -> None:
    scenario = new_scenario(partitions=2)
    settings = s3_store(s3_server, bucket)
    connector = scenario.connector(settings, HIVE_COLUMNS="place", METADATA_COLUMNS=METADATA, BATCH_SIZE="100000")
    for portion in range(PORTIONS):
        produce(scenario, range(portion * PER_PORTION, (portion + 1) * PER_PORTION))
        scenario.wait_until_committed((portion + 1) * PER_PORTION, connector)
    assert connector.stop() == 0
    prefix = f"data/{scenario.topic}/"
    lake = mirror(s3_server, bucket, scenario.folder / "mirror", prefix)

    rows = lake.query(
        "SELECT n, place, __topic, __partition, __offset, epoch_ms(__timestamp), __headers FROM {source} ORDER BY n"
    )
    assert rows == [as_produced(scenario.topic, n) for n in range(PORTIONS * PER_PORTION) if n != BAD]

    auditor = Auditor(
        settings | {"input": scenario.topic, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}  # it needs no broker
    )
    s3 = s3_server.client()
    lost = {0: set[int](), 1: {BAD // 2}}
    code, findings = auditor.json()
    assert (code, offsets_of(findings, "doubled"), offsets_of(findings, "missing")) == (0, nothing(), nothing())
    code, findings = auditor.json("--offsets")
    assert (code, offsets_of(findings, "doubled"), offsets_of(findings, "missing")) == (0, nothing(), lost)
    assert [each["missing_dead_letters"] for each in findings] == [0, 1]

    victim = file_of(lake.files(), lambda first: first == PER_PORTION // 2)  # neither first nor last of its partition
    key = prefix + str(victim.relative_to(lake.folder))
    named, held = nothing() | offsets_of_batch(victim), offsets_in(victim)
    owner = victim.stem.rpartition("_")[2].partition("-")[0]
    copy = key.replace(owner, COPIES)
    s3.copy_object(Bucket=bucket, Key=copy, CopySource={"Bucket": bucket, "Key": key})
    code, findings = auditor.json()
    assert (code, offsets_of(findings, "doubled")) == (1, named)
    code, findings = auditor.json("--offsets", "--most", "1000")
    assert (code, offsets_of(findings, "doubled")) == (1, held)
    code, text = auditor.text("--offsets")
    assert code == 1
    assert f"{scenario.topic}[0]  {min(held[0])}  " in text
    assert f"{COPIES}-" in text
    s3.delete_object(Bucket=bucket, Key=copy)

    s3.delete_object(Bucket=bucket, Key=key)
    code, findings = auditor.json("--offsets", "--most", "1000")
    assert (code, offsets_of(findings, "missing")) == (0, {tp: lost[tp] | held[tp] for tp in held})
    for path in lake.files():  # the others of its batch
        if path.name == victim.name:
            s3.delete_object(Bucket=bucket, Key=prefix + str(path.relative_to(lake.folder)))
    code, findings = auditor.json()
    assert (code, offsets_of(findings, "missing")) == (0, named)
    code, text = auditor.text()
    assert f"{scenario.topic}[0]  {min(named[0])}-{max(named[0])}  " in text


def nothing() -> dict[int, set[int]]:
    return {0: set(), 1: set()}


def as_produced(topic: str, n: int) -> Row:
    headers = HEADERS[n % len(HEADERS)]
    listed = [{"key": name, "value": value} for name, value in headers] if headers else None
    return n, PLACES[n % len(PLACES)], topic, n % 2, n // 2, timestamp(n), listed


def file_of(files: Sequence[Path], begins: Callable[[int], bool]) -> Path:
    """A file with rows of partition 0 whose batch begins there."""
    for path in files:
        if 0 in (offsets := offsets_of_batch(path)) and begins(min(offsets[0])) and offsets_in(path)[0]:
            return path
    raise AssertionError(f"no such file among {files}")


def offsets_in(path: Path) -> dict[int, set[int]]:
    """The offsets of the file's rows, by partition."""
    found = nothing()
    for row in pq.read_table(path, columns=["__partition", "__offset"]).to_pylist():
        found[row["__partition"]].add(row["__offset"])
    return found
