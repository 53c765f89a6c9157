"""Values that fit no column in a lossless way: kept as JSON, by the names and paths they had in the record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rescue:
    """What was rescued of one column in a batch: how many values, and why, by the example of the first."""

    count: int
    example: str


def joined(first: Any, second: Any) -> Any:
    """What was rescued of one value in two steps: of a struct, fields are gathered."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        both = dict(first)
        for name, value in second.items():
            both[name] = joined(both[name], value) if name in both else value
        return both
    return second
