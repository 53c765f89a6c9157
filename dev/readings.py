"""Made-up sensor readings: the same ones at every call."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

PLACES = {"Berlin": 9.0, "Lisbon": 17.0, "Oslo": 2.0, "Rome": 14.0}  # and their mean temperature in these days, in °C
DEVICES_PER_PLACE = 3
START = datetime(2025, 3, 30, tzinfo=UTC)  # three days around the end of a month
DAYS = 3
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Reading:
    """What one device measured at one moment; ``battery`` in percent, known to devices without mains alone."""

    ts_ms: int
    device: str
    location: str
    temperature: float
    humidity: float
    status: str
    battery: int | None

    def to_json(self) -> bytes:
        """The record's value. A device without a battery does not send the field at all."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(fields).encode()


def readings(count: int) -> Iterator[Reading]:
    """Yield ``count`` readings in the order of time, spread evenly over the three days; no two at the same time."""
    chance = random.Random(20_000)  # noqa: S311 - weather, not cryptography
    start_ms = int(START.timestamp() * 1000)
    devices = [(place, f"{place.lower()}-{n}") for place in PLACES for n in range(1, DEVICES_PER_PLACE + 1)]
    for i in range(count):
        since_ms = i * DAYS * DAY_MS // count
        place, device = chance.choice(devices)
        swing = math.sin((since_ms / DAY_MS - 0.375) * 2 * math.pi)  # coldest at three, warmest at fifteen o'clock
        temperature = round(PLACES[place] + 5 * swing + chance.gauss(0, 0.6), 1)
        yield Reading(
            ts_ms=start_ms + since_ms,
            device=device,
            location=place,
            temperature=temperature,
            humidity=round(min(100.0, max(0.0, 65 - 15 * swing + chance.gauss(0, 4))), 1),
            status="frost" if temperature < 0 else "ok",
            battery=int(100 - since_ms / DAY_MS * 9) if device.endswith("-3") else None,
        )
