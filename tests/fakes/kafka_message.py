"""Messages as Kafka's client gives them."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class KafkaMessage:
    """A message without a broker, possibly with an error; a timestamp of -1 is none."""

    raw_value: bytes | None
    raw_key: bytes | None = None
    at: int = 0
    of_partition: int = 0
    of_topic: str = "sensors"
    timestamp_ms: int = 1_705_320_000_000
    raw_headers: list[tuple[str, bytes]] | None = None
    failure: Any = None

    def __len__(self) -> int:
        return len(self.raw_value or b"")

    def topic(self) -> str:
        return self.of_topic

    def partition(self) -> int:
        return self.of_partition

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return (0 if self.timestamp_ms == -1 else 1), self.timestamp_ms

    def key(self) -> bytes | None:
        return self.raw_key

    def value(self) -> bytes | None:
        return self.raw_value

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self.raw_headers

    def set_headers(self, value: list[tuple[str, bytes]]) -> None:
        self.raw_headers = value

    def leader_epoch(self) -> int | None:
        return None

    def error(self) -> Any:
        return self.failure
