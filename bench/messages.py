"""What is produced: sensor readings, the same ones at every call, and what they add up to.

DuckDB makes both: five million readings take seconds instead of minutes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb

from bench.avro import as_avro
from bench.totals import Totals, totals_of
from dev.broker import Record

# Divisible by every number of partitions up to 4, and by 6, 8, 12, 16 and 24: all get as many readings, give or take
# one, and a device keeps to one of them. More partitions have a device each.
DEVICES = 48
LOW_BATTERY = 10  # percent
CHUNK = 100_000
# The middle one of the readings is taken here: year=2025/month=03/day=31 goes over into month=04/day=01.
MIDNIGHT_MS = int(datetime(2025, 4, 1, tzinfo=UTC).timestamp() * 1000)
NOON_MS = MIDNIGHT_MS + 43_200_000

# Temperature in hundredths of °C, humidity in tenths of a percent. Two rounds of multiplying and folding make
# numbers that look like weather and are the same everywhere.
READINGS = """
SELECT seq, seq % {devices} AS device, {begin} + seq * {every_ms} AS ts_ms,
       'thermometer-hall-' || lpad((seq % {devices})::VARCHAR, 4, '0') AS name,
       'site-' || lpad(((seq // {devices} + seq) % {locations})::VARCHAR, 4, '0') AS location,
       500 + roll % 3000 AS temperature, 300 + (roll >> 9) % 600 AS humidity, (roll >> 18) % 101 AS battery
FROM (SELECT seq, (xor(half, half >> 15) * 1103515245) % 4294967296 AS roll
      FROM (SELECT range AS seq, (range * 2654435761 + {messages}) % 4294967296 AS half FROM range({first}, {end})))
"""
TOTALS = """
SELECT name, location, strftime(make_timestamp(ts_ms * 1000), '%Y') AS year,
       strftime(make_timestamp(ts_ms * 1000), '%m') AS month, strftime(make_timestamp(ts_ms * 1000), '%d') AS day,
       count(*), count(DISTINCT seq), sum(seq), sum(ts_ms), sum(temperature), sum(humidity), sum(battery)
FROM ({readings}) WHERE {condition} GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """The readings of one topic.

    Attributes:
        messages, partitions: how many.
        locations: different values of the last Hive column; neighbouring readings are of different ones.
        over_midnight: whether half of the readings are of the next day.
        every_ms: from one reading to the next.
        notes: further text columns, of 48 bytes each in the message.
        plain: with the name of the device and a status; without, a message has about 105 bytes instead of 185.
        avro: as Avro instead of JSON.
    """

    messages: int
    partitions: int
    locations: int = 4
    over_midnight: bool = True
    every_ms: int = 1
    notes: int = 0
    plain: bool = True
    avro: bool = False

    @property
    def name(self) -> str:
        size, days = (self.messages, self.partitions, self.locations), (2 - (not self.over_midnight), self.every_ms)
        shape = (*size, *days, self.notes, self.plain)
        return "readings-" + "-".join(str(int(part)) for part in shape) + ("-avro" if self.avro else "")

    def message_bytes(self) -> float:
        """The size of a message's value on average, from the first thousand."""
        sizes = [len(value or "") for _, value, _, _ in records(self, last=1_000)]
        return sum(sizes) / len(sizes)


def records(workload: Workload, last: int | None = None, schema_id: int = 0, chunk: int = CHUNK) -> Iterator[Record]:
    """Yield the readings as records, all or those before ``last``, in the order of time.

    ``schema_id`` is for Avro; ``chunk`` readings are made at a time.
    """
    found = _in_json(workload, last, chunk)
    return as_avro(found, schema_id) if workload.avro else found


def _in_json(workload: Workload, last: int | None, chunk: int) -> Iterator[Record]:
    end = workload.messages if last is None else min(last, workload.messages)
    with duckdb.connect() as database:
        for first in range(0, end, chunk):
            readings = _readings(workload, first, min(end, first + chunk))
            columns = f"name, {_json(workload)}, ts_ms, device % {workload.partitions}"
            yield from database.execute(f"SELECT {columns} FROM ({readings})").fetchall()


def expected_totals(workload: Workload) -> Totals:
    """What the readings add up to, per key and Hive partition."""
    return _totals(workload, "true")


def totals_of_first(workload: Workload, numbers: Sequence[int]) -> Totals:
    """What the first ``numbers[p]`` readings of each partition p add up to."""
    partition = f"seq % {workload.partitions}"
    some = " OR ".join(
        f"({partition} = {number} AND seq // {workload.partitions} < {count})" for number, count in enumerate(numbers)
    )
    return _totals(workload, some)


def _totals(workload: Workload, condition: str) -> Totals:
    readings = _readings(workload, 0, workload.messages)
    with duckdb.connect() as database:
        return totals_of(database.execute(TOTALS.format(readings=readings, condition=condition)).fetchall())


def _readings(workload: Workload, first: int, end: int) -> str:
    middle = MIDNIGHT_MS if workload.over_midnight else NOON_MS
    return READINGS.format(
        devices=max(DEVICES, workload.partitions),
        locations=workload.locations,
        begin=middle - workload.messages // 2 * workload.every_ms,
        every_ms=workload.every_ms,
        messages=workload.messages,
        first=first,
        end=end,
    )


def _json(workload: Workload) -> str:
    """The message as an SQL expression."""
    low = f"CASE WHEN battery > {LOW_BATTERY} THEN 'operating normally' ELSE 'battery is low' END"
    fields = [
        ("ts_ms", "ts_ms"),
        *([("device", _text("name"))] if workload.plain else []),
        ("location", _text("location")),
        ("temperature", "temperature / 100"),
        ("humidity", "humidity / 10"),
        *([("status", _text(low))] if workload.plain else []),
        ("battery", "battery"),
        ("seq", "seq"),
        *((f"note_{number:03}", _text(f"md5((seq * 1000 + {number})::VARCHAR)")) for number in range(workload.notes)),
    ]
    comma, colon = (", ", ": ") if workload.plain else (",", ":")
    members = f", '{comma}', ".join(f"'\"{name}\"{colon}', {value}" for name, value in fields)
    return f"concat('{{', {members}, '}}')"


def _text(value: str) -> str:
    return f"'\"' || {value} || '\"'"
