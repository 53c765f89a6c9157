"""The records that the scenarios produce: each can be told from all others, and their sum is known."""

import json
from collections.abc import Iterator
from typing import Any

from dev.broker import Record

PLACES = ("Berlin", "Lisbon", "New York", "a/b=c")
FIRST_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
STEP_MS = 37_000


def value(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "ts_ms": FIRST_MS + n % 9_000 * STEP_MS,  # four days
        "location": PLACES[n % len(PLACES)],
        "temperature": n / 8,
        "ok": n % 3 == 0,
    }


def records(count: int, first: int = 0, partitions: int = 1) -> Iterator[Record]:
    """Records ``first`` to ``first + count - 1``, spread evenly over the partitions."""
    for n in range(first, first + count):
        yield f"device-{n % 10}", json.dumps(value(n)), None, n % partitions
