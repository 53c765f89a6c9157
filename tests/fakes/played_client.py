"""Kafka's client over a topic in memory, with the habits of librdkafka that matter to who assigns partitions itself."""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.kafka.questions import own_offset
from app.model import TopicPartition
from tests.fakes.kafka_message import KafkaMessage

_Callback = Callable[[Any, list[KafkaTopicPartition]], None]


class PlayedClient:
    """Gives what is in ``records``, of assigned partitions that are not paused.

    A pause stays over an assignment, also of a partition that was away in between. An assignment is read from the
    offset that it names.

    The next poll begins with ``rebalances`` and gives ``failures``; the next commits fail at once with
    ``commit_errors``. ``calls`` are without polls.
    """

    def __init__(self) -> None:
        self.records: dict[TopicPartition, list[KafkaMessage]] = {}
        self.failures: list[KafkaMessage] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.commit_errors: list[int] = []
        self.rebalances: list[Callable[[], None]] = []
        self.calls: list[str] = []
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.on_poll: Callable[[], None] = lambda: None
        self.is_closed = False
        self._callbacks: dict[str, _Callback] = {}
        self._owned: list[TopicPartition] = []

    # --- by the test ------------------------------------------------------------------------------------------------

    def give(self, *tps: TopicPartition) -> None:
        self.rebalances.append(lambda: self._rebalance("on_assign", tps))

    def take_away(self) -> None:
        self.rebalances.append(lambda: self._rebalance("on_revoke", ()))

    def lose(self) -> None:
        """Let the client learn at the next poll that the group has expelled it."""
        self.rebalances.append(lambda: self._rebalance("on_lost", ()))

    def produce(self, tp: TopicPartition, *values: bytes, first: int | None = None) -> None:
        kept = self.records.setdefault(tp, [])
        at = (kept[-1].offset() + 1 if kept else 0) if first is None else first
        kept += [
            KafkaMessage(value, at=at + i, of_partition=tp.partition, of_topic=tp.topic)
            for i, value in enumerate(values)
        ]

    @property
    def committed(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for each in self.commits:
            found |= each
        return found

    # --- under the names of librdkafka ------------------------------------------------------------------------------

    def subscribe(self, topics: Sequence[str], on_assign: _Callback, on_revoke: _Callback, on_lost: _Callback) -> None:
        self._callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}

    def consume(self, num_messages: int, timeout: float) -> list[Any]:
        self.on_poll()
        while self.rebalances:
            self.rebalances.pop(0)()
        failures, self.failures = self.failures, []
        polled: list[Any] = []
        for tp in [tp for tp in self.positions if tp not in self.paused]:
            ready = [each for each in self.records.get(tp, []) if each.offset() >= self.positions[tp]]
            taken = ready[: num_messages - len(polled)]
            if taken:
                self.positions[tp] = taken[-1].offset() + 1
            polled += taken
        return polled + failures

    def assign(self, tps: list[KafkaTopicPartition]) -> None:
        self.calls.append(f"assign {', '.join(f'{tp.partition} at {tp.offset}' for tp in tps) or 'nothing'}")
        self.positions = {_ours(tp): tp.offset for tp in tps}

    def unassign(self) -> None:
        self.positions = {}

    def pause(self, tps: list[KafkaTopicPartition]) -> None:
        self.paused |= {_ours(tp) for tp in tps}

    def resume(self, tps: list[KafkaTopicPartition]) -> None:
        self.paused -= {_ours(tp) for tp in tps}

    def seek(self, tp: KafkaTopicPartition) -> None:
        assert _ours(tp) in self.positions
        self.calls.append(f"seek {tp.partition} to {tp.offset}")
        self.positions[_ours(tp)] = tp.offset

    def commit(self, *, offsets: list[KafkaTopicPartition], asynchronous: bool) -> None:
        if self.commit_errors:
            raise KafkaException(KafkaError(self.commit_errors.pop(0)))
        assert all(tp.metadata == own_offset(*_ours(tp), tp.offset).metadata for tp in offsets)
        self.calls.append("commit" if asynchronous else "commit and wait")
        self.commits.append({_ours(tp): tp.offset for tp in offsets})

    def close(self) -> None:
        if self._owned:
            self._rebalance("on_revoke", ())
        self.is_closed = True

    # --- inside -----------------------------------------------------------------------------------------------------

    def _rebalance(self, callback: str, tps: Sequence[TopicPartition]) -> None:
        concerned = list(tps) if callback == "on_assign" else self._owned
        self._callbacks[callback](self, [KafkaTopicPartition(*tp) for tp in concerned])
        self._owned = list(tps)


def _ours(tp: KafkaTopicPartition) -> TopicPartition:
    return TopicPartition(tp.topic, tp.partition)
