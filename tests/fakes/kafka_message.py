"""Messages as Kafka's client gives them."""

from typing import Any

from app.consumer.offline import GivenMessage


class KafkaMessage(GivenMessage):
    """The connector's own message without a broker, with defaults; also of another partition, or with an error.

    Args:
        raw_value, raw_key, raw_headers: the bytes in Kafka.
        at: the offset.
        of_partition, of_topic: the topic-partition.
        timestamp_ms: since the epoch; -1 for none.
        failure: the error of Kafka's client in place of a record.
    """

    def __init__(
        self,
        raw_value: bytes | None,
        raw_key: bytes | None = None,
        at: int = 0,
        of_partition: int = 0,
        of_topic: str = "sensors",
        timestamp_ms: int = 1_705_320_000_000,
        raw_headers: list[tuple[str, bytes]] | None = None,
        failure: Any = None,
    ) -> None:
        super().__init__(of_topic, at, raw_value, raw_key, timestamp_ms, raw_headers)
        self.of_partition = of_partition
        self.failure = failure

    def partition(self) -> int:
        return self.of_partition

    def timestamp(self) -> tuple[int, int]:
        return (0 if self.timestamp_ms == -1 else 1), self.timestamp_ms

    def error(self) -> Any:
        return self.failure
