"""A topic with everything that one message can do to a connector: nothing stops it, changes, or is lost."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from dev.broker import QUIET, Record
from tests.e2e.connector import ConnectorProcess
from tests.e2e.lake import Lake
from tests.e2e.records import FIRST_MS, value
from tests.e2e.scenario import Scenario
from tests.support.waiting import wait_until

GOOD = 300
HUGE = 2**64 + 7
SETTINGS = {
    "HIVE_COLUMNS": "id,year",
    "METADATA_COLUMNS": "__offset,__timestamp",
    "COLUMN_TYPES": "fixed:string,amount:decimal(38,2)",
    "BATCH_SIZE": "100000",
}
LOG_LINE = 4_000  # characters, by which a line is still one that a person reads
LOG_LINES = 300


@dataclass(frozen=True)
class Odd:
    """A message that is odd in one way; ``columns`` are those of its row, ``None`` if it may be in the dead letter."""

    text: str
    columns: Mapping[str, object] | None = None
    timestamp: int = FIRST_MS


def _odd(columns: Mapping[str, object] | None = None, timestamp: int = FIRST_MS, **fields: Any) -> Odd:
    return Odd(json.dumps({"ts_ms": FIRST_MS, "id": "odd", **fields}), columns, timestamp)


ODD = {
    "text that looks like a timestamp for 300 kB": _odd(ts_ms="T0" * 150_000),
    "10,000 new fields": _odd({"id": "odd"}, **{f"field_{n}": n for n in range(10_000)}),
    "a name of 200,000 characters": _odd({"id": "odd"}, **{"n" * 200_000: 1}),
    "a Kafka timestamp in nanoseconds": _odd({"id": "odd", "__timestamp": None}, timestamp=FIRST_MS * 1_000_000),
    "a fixed column that the table lacks": _odd({"fixed": "17"}, fixed=17),
    "a whole number beyond 64 bits in a fixed column": _odd({"fixed": str(HUGE)}, fixed=HUGE),
    "a whole number beyond 64 bits as an amount": _odd({"amount": f"{HUGE}.00"}, amount=HUGE),
    "a whole number beyond 64 bits in a new column": _odd({"_rescued_data": {"big": HUGE}}, big=HUGE),
    "a whole number beyond 64 bits as a partition": _odd({"id": str(HUGE)}, id=HUGE),
    "its neighbour": _odd({"id": str(HUGE + 1)}, id=HUGE + 1),
    "an empty name in an object": _odd({"id": "odd"}, outer={"": 1, "inner": 2}),
    "lists in lists": Odd(f'{{"id": "odd", "ts_ms": {FIRST_MS}, "deep": {"[" * 25}1{"]" * 25}}}', {"id": "odd"}),
    "fields of an object that differ in case": _odd({"id": "odd"}, cased={"a": 1, "A": 2}),
    "a rescued value of a reserved name": _odd({"id": "odd"}, __kafka_key="mine", __key="other"),
    "a number of a thousand digits": Odd(f'{{"id": "odd", "ts_ms": {FIRST_MS}, "n1": {"9" * 1_000}}}'),
    "a year before there were any": _odd(ts_ms="0000-01-01T00:00:00Z"),
}
COMPRESSED_MB = 200
HEAVY = 1_000
HEADERS = [("trace", os.urandom(700) * 1_000)]


def good(first: int, count: int = GOOD) -> list[Record]:
    return [("key", json.dumps(value(n) | {"id": "good"}), FIRST_MS, 0) for n in range(first, first + count)]


@pytest.mark.java
def test_no_message_stops_the_others_or_changes(scenario: Scenario) -> None:
    take_any_timestamp(scenario)
    scenario.produce(good(0))
    scenario.produce(("key", odd.text, odd.timestamp, 0) for odd in ODD.values())
    produce_compressed(scenario, "gzip", ['{"id": "odd", "text": "' + " " * COMPRESSED_MB * 2**20 + '"}'])
    scenario.produce(good(GOOD))
    produce_compressed(scenario, "lz4", (text for _, text, *_ in good(2 * GOOD, HEAVY)), HEADERS)
    everything = 2 * GOOD + len(ODD) + 1 + HEAVY
    connector = scenario.connector(scenario.local_store, SETTINGS)
    scenario.wait_until_committed(everything, connector)
    peak = peak_memory(connector)
    scenario.produce(good(2 * GOOD + HEAVY))
    scenario.wait_until_committed(everything + GOOD, connector)

    assert connector.stop() == 0

    assert_all_is_there_once(scenario, everything + GOOD)
    assert_as_they_were(scenario.lake)
    lines = connector.log.splitlines()
    assert max(map(len, lines)) < LOG_LINE
    assert len(lines) < LOG_LINES
    assert "Traceback" not in connector.log
    # What Python takes anyway, and the message twice: as the client decompresses it, and as it hands it over. The
    # headers take 700 MB in all.
    assert peak < (2 * COMPRESSED_MB + 350) * 2**20, f"{peak / 2**20:.0f} MB"

    again = scenario.connector(scenario.local_store, SETTINGS)  # the very same settings
    scenario.produce(good(3 * GOOD + HEAVY))
    scenario.finish(again, everything + 2 * GOOD)
    assert_all_is_there_once(scenario, everything + 2 * GOOD)


def take_any_timestamp(scenario: Scenario) -> None:
    """Brokers since Kafka 4 refuse those of the future, unless the topic says otherwise."""
    admin = AdminClient({"bootstrap.servers": scenario.kafka.bootstrap_servers, **QUIET})
    entry = ConfigEntry("message.timestamp.after.max.ms", str(2**63 - 1), incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, scenario.topic, incremental_configs=[entry])
    altered = admin.incremental_alter_configs([topic])[topic]
    wait_until(altered.done, "the topic's setting")
    altered.result()


def produce_compressed(scenario: Scenario, codec: str, texts: Iterable[Any], headers: Any = None) -> None:
    """Messages that a broker counts as some kilobytes, and that take megabytes."""
    producer = Producer(
        {
            "bootstrap.servers": scenario.kafka.bootstrap_servers,
            "compression.type": codec,
            "message.max.bytes": 1_000_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            **QUIET,
        }
    )
    for text in texts:
        producer.produce(scenario.topic, text, key="key", partition=0, headers=headers)
        wait_until(lambda: producer.flush(1) == 0, "the large message in the topic")


def peak_memory(connector: ConnectorProcess) -> int:
    status = Path(f"/proc/{connector.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def assert_all_is_there_once(scenario: Scenario, count: int) -> None:
    offsets = [offset for path in scenario.lake.files() for offset in _column(path, "__offset")]
    rejected = [offset for path in _dead_letter(scenario).files() for offset in _column(path, "offset")]
    assert sorted(offsets + rejected) == list(range(count))
    [(numbers,)] = scenario.lake.query("SELECT list(n ORDER BY n) FROM {source} WHERE n IS NOT NULL")
    assert numbers == list(range(len(numbers)))


def assert_as_they_were(lake: Lake) -> None:
    # By a common reader, all columns; Python's DuckDB gives out times with a zone only with one more package.
    everything = "SELECT * REPLACE (CAST(__timestamp AS VARCHAR) AS __timestamp) FROM {source}"
    rows = lake.query(f"{everything} WHERE n IS NULL")
    names = [name for name, *_ in lake.query(f"DESCRIBE {everything}")]
    by_offset = {row[names.index("__offset")]: dict(zip(names, row, strict=True)) for row in rows}
    for offset, (what, odd) in enumerate(ODD.items(), start=GOOD):
        for name, wanted in (odd.columns or {}).items():
            found = by_offset[offset].get(name)
            found = json.loads(str(found)) if isinstance(wanted, dict) else found
            assert found == wanted or str(found) == wanted, f"{what}: {name}"


def _dead_letter(scenario: Scenario) -> Lake:
    return Lake(scenario.lake.folder.parent / "_dead_letter" / scenario.topic)


def _column(path: Path, name: str) -> list[Any]:
    values: list[Any] = pq.ParquetFile(path).read([name])[name].to_pylist()
    return values
