"""What is produced: sensor readings, the same ones at every call, and what they add up to."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from bench.totals import Group, Sums, Totals
from dev.broker import Record

LOCATIONS = ("amsterdam", "barcelona", "copenhagen", "dortmund")
DEVICES = 40
LOW_BATTERY = 10  # percent
STEP_MS = 20
DAY_MS = 86_400_000
# The middle one of the readings is taken here, so that year=2025/month=03/day=31 goes over into month=04/day=01.
MIDDLE_MS = int(datetime(2025, 4, 1, tzinfo=UTC).timestamp() * 1000)


class Reading(NamedTuple):
    """What one device measured; temperature in hundredths of °C and humidity in tenths of a percent."""

    seq: int
    ts_ms: int
    device: int
    temperature: int
    humidity: int
    battery: int


def readings(count: int) -> Iterator[Reading]:
    """Yield readings in the order of time, from all devices alike."""
    chance = random.Random(count)  # noqa: S311 - weather, not cryptography
    begin = MIDDLE_MS - count // 2 * STEP_MS
    for seq in range(count):
        roll = chance.getrandbits(32)
        yield Reading(
            seq=seq,
            ts_ms=begin + seq * STEP_MS,
            device=seq % DEVICES,
            temperature=500 + roll % 3000,
            humidity=300 + (roll >> 12) % 600,
            battery=(roll >> 22) % 101,
        )


def records(count: int, partitions: int) -> Iterator[Record]:
    """Yield the readings as records of about 190 bytes; a device keeps to one partition."""
    for reading in readings(count):
        value = {
            "ts_ms": reading.ts_ms,
            "device": _device(reading.device),
            "location": _location(reading.device),
            "temperature": reading.temperature / 100,
            "humidity": reading.humidity / 10,
            "status": "operating normally" if reading.battery > LOW_BATTERY else "battery is low",
            "battery": reading.battery,
            "seq": reading.seq,
        }
        yield _device(reading.device), json.dumps(value), reading.ts_ms, reading.device % partitions


def expected_totals(count: int) -> Totals:
    """What the readings add up to, per key and Hive partition."""
    return add_up(readings(count))


def add_up(some: Iterable[Reading]) -> Totals:
    totals: dict[Group, list[int]] = {}
    for reading in some:
        numbers = (reading.seq, reading.ts_ms, reading.temperature, reading.humidity, reading.battery)
        sums = totals.setdefault(_group(reading), [0] * len(Sums._fields))
        sums[0] += 1
        sums[1] += 1
        for index, number in enumerate(numbers, start=2):
            sums[index] += number
    return {group: Sums(*sums) for group, sums in totals.items()}


def first_of_each_partition(count: int, numbers: Sequence[int]) -> Iterator[Reading]:
    """Yield the first ``numbers[p]`` readings of each partition p, of a topic with ``count`` of them."""
    left = list(numbers)
    for reading in readings(count):
        partition = reading.device % len(left)
        if left[partition]:
            left[partition] -= 1
            yield reading


def _group(reading: Reading) -> Group:
    return Group(_device(reading.device), _location(reading.device), *_date(reading.ts_ms // DAY_MS))


@cache
def _date(day: int) -> tuple[str, str, str]:
    """Year, month and day in UTC as the folders spell them, of the day since the epoch."""
    date = datetime.fromtimestamp(day * DAY_MS / 1000, UTC)
    return f"{date:%Y}", f"{date:%m}", f"{date:%d}"


def _device(number: int) -> str:
    return f"thermometer-{_location(number)}-{number:04d}"


def _location(number: int) -> str:
    # every partition sees every location, with 1, 3 and 4 partitions
    return LOCATIONS[number // len(LOCATIONS) % len(LOCATIONS)]
