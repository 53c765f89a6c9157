"""What goes through both sinks: batches of records, and the settings that they are written with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TOPIC = "sensors"
TABLE = "readings"
PREFIX = "data"
ROOT = f"{PREFIX}/{TABLE}"
BUCKET = "lake"
NUMBER = "row"  # each record carries its own number in this field, by which the two sinks' rows are told to be one
NOON = 1_705_320_000_000  # 2024-01-15T12:00:00Z in ms


class Record(NamedTuple):
    """A record as quixstreams hands it to a sink. Its offset is its number."""

    number: int
    value: Any
    key: Any = "k"
    timestamp: int = NOON
    partition: int = 0


def record(value: Any, *, key: Any = "k", timestamp: int = NOON, partition: int = 0) -> Record:
    """A record that has no number yet."""
    return Record(-1, value, key, timestamp, partition)


@dataclass(frozen=True)
class Case:
    """Some batches, each of them flushed before the next; whatever is no ``Record`` is the value of one."""

    name: str
    batches: Sequence[Sequence[Any]]
    hive_columns: str = ""
    timestamp_column: str = "ts_ms"
    sort_column: str = ""
    stats_columns: str = ""
    auto_discover: bool = True
    numbered: tuple[tuple[Record, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        numbers = iter(range(10**9))
        batches = tuple(tuple(_numbered(each, next(numbers)) for each in batch) for batch in self.batches)
        object.__setattr__(self, "numbered", batches)

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(self.hive_columns.split(",")) if self.hive_columns else ()


def _numbered(each: Any, number: int) -> Record:
    given = each if isinstance(each, Record) else record(each)
    value = {**given.value, NUMBER: number} if isinstance(given.value, dict) else given.value
    return given._replace(number=number, value=value)
