"""Topics and a consumer group as their members see them, over a network that fails."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.models import MessageContext, Row

from app.errors import RetryableError
from app.kafka.questions import PartitionOffsets, own_offset
from app.model import TopicPartition
from tests.faults.lanes import Fate, Network, pause

TOPIC, OTHER = "sensors", "orders"
_TIME = 1_705_320_000_000  # 2024-01-15T12:00:00Z in ms
_TOPIC_ID = "first-life"
_SIZE = 400  # of a message, in bytes
EPOCH = 1_700_000_000.0


class Group:
    """One consumer group; late commits stay in the network."""

    def __init__(
        self, tps: Sequence[TopicPartition], network: Network, on_commit: Callable[[TopicPartition, int], None]
    ) -> None:
        self.records: dict[TopicPartition, list[str]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.set_by_hand: set[TopicPartition] = set()
        self.times: dict[TopicPartition, list[float]] = {}  # when they were produced
        self.follow_offsets = ""
        self.reset: str | timedelta = "earliest"
        self.owners: dict[TopicPartition, Consumer | None] = {}
        self.deleted: dict[TopicPartition, list[str]] = {}  # the records of deleted topics
        self.network = network
        self.on_commit = on_commit
        self.add(tps)

    @property
    def free(self) -> list[TopicPartition]:
        by_number = sorted(self.owners, key=lambda tp: tp.partition)
        return [tp for tp in by_number if self.owners[tp] is None]

    def of(self, consumer: "Consumer") -> list[TopicPartition]:
        """The partitions that are this member's, whatever it believes itself."""
        return [tp for tp, owner in self.owners.items() if owner is consumer]

    def has(self, consumer: "Consumer") -> bool:
        """See ``app.kafka.group.is_member``: whether the coordinator takes this member for alive."""
        if pause("ask Kafka for the members") is not Fate.ANSWERED:
            self.network.failures += 1
            raise RetryableError("asking Kafka for the members", "no answer")
        owned = self.of(consumer)
        return bool(owned) and set(owned) == set(consumer.assigned)

    def release(self, consumer: "Consumer") -> None:
        for tp in self.of(consumer):
            self.owners[tp] = None

    def position_of(self, tp: TopicPartition) -> PartitionOffsets:
        """What ``app.kafka.questions.GroupOffsets`` finds out."""
        if pause(f"ask Kafka about {tp}") is not Fate.ANSWERED:
            self.network.failures += 1
            raise RetryableError(f"asking Kafka for the offsets of {tp}", "no answer")
        if tp in self.deleted:
            raise RetryableError(f"asking Kafka for the offsets of {tp}", "unknown partition")
        is_set = tp in self.set_by_hand
        return PartitionOffsets(self.committed.get(tp), 0, len(self.records[tp]), _TOPIC_ID, is_set=is_set)

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        """What ``app.kafka.questions.GroupOffsets`` finds out, as the next one."""
        return {tp: len(records) for tp, records in self.records.items() if tp.topic == topic}

    def begun(self, topic: str) -> set[TopicPartition]:
        return {tp for tp in self.committed if tp.topic == topic}

    def since(self, moment: datetime, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if pause("ask Kafka for the offsets since a time") is not Fate.ANSWERED:
            self.network.failures += 1
            raise RetryableError("asking Kafka for the offsets since a time", "no answer")
        return {tp: bisect_left(self.times.get(tp, []), moment.timestamp() - EPOCH) for tp in ends}

    def topic_id(self, topic: str) -> str:
        """What ``app.kafka.questions.GroupOffsets`` finds out; nothing where there is no answer."""
        if pause(f"ask Kafka for the id of {topic}") is Fate.ANSWERED:
            if not self.ends(topic):
                raise RetryableError(f"asking Kafka for the id of topic {topic}", "it does not exist").of("topic")
            return _TOPIC_ID
        self.network.failures += 1
        return ""

    def delete(self, topic: str) -> None:
        for tp in self.ends(topic):
            self.deleted[tp] = self.records.pop(tp)
            for of_partition in (self.committed, self.times, self.owners):
                of_partition.pop(tp, None)
            self.set_by_hand.discard(tp)

    def commit(self, tp: TopicPartition, offset: int) -> None:
        if tp in self.deleted:
            return
        self.committed[tp] = offset
        self.set_by_hand.discard(tp)
        self.on_commit(tp, offset)

    def produce(self, tp: TopicPartition, kinds: Sequence[str], at: float) -> None:
        self.records[tp].extend(kinds)
        self.times[tp].extend([at] * len(kinds))

    def add_partition(self, topic: str) -> TopicPartition:
        tp = TopicPartition(topic, sum(each.topic == topic for each in self.records))
        self.add([tp])
        return tp

    def add(self, tps: Sequence[TopicPartition]) -> None:
        for tp in tps:
            self.records[tp], self.times[tp], self.owners[tp] = [], [], None

    def set_back(self, tp: TopicPartition, by: int) -> None:
        self.committed[tp] = max(self.committed[tp] - by, 0)
        self.set_by_hand.add(tp)


class Consumer:
    """What quixstreams uses of librdkafka's consumer. It may not know yet that its partitions are somebody else's.

    A pause stays over an assignment.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._positions: dict[TopicPartition, int | None] = {}
        self._paused: set[TopicPartition] = set()
        self._turn = 0

    @property
    def assigned(self) -> list[TopicPartition]:
        return list(self._positions)

    @property
    def is_at_end(self) -> bool:
        """Whether it has consumed all there is, without a pause."""
        return all(self._at(tp) == len(self._records(tp)) and tp not in self._paused for tp in self._positions)

    def forget(self, tps: Sequence[TopicPartition]) -> None:
        for tp in tps:
            self._positions.pop(tp, None)

    # --- under the names of librdkafka ------------------------------------------------------------------------------

    def poll_row(self, timeout: float, buffered: bool) -> Row | None:
        ready = [tp for tp in self._positions if tp not in self._paused and self._at(tp) < len(self._records(tp))]
        if not ready:
            return None
        self._turn += 1
        tp = ready[self._turn % len(ready)]
        offset = self._at(tp)
        self._positions[tp] = offset + 1
        value = {"kind": self._records(tp)[offset]}
        return Row(value, "key", _TIME, MessageContext(tp.topic, tp.partition, offset, _SIZE), [])

    def commit(self, offsets: list[KafkaTopicPartition], asynchronous: bool) -> list[KafkaTopicPartition]:
        error = self._commit(offsets)
        if error and not asynchronous:
            raise KafkaException(error)
        return offsets

    def _commit(self, offsets: list[KafkaTopicPartition]) -> KafkaError | None:
        assert all(each.metadata == own_offset(each.topic, each.partition, each.offset).metadata for each in offsets)
        fate = pause("commit")

        def carry_out() -> None:
            for each in offsets:
                self._group.commit(_ours(each), each.offset)

        is_stale = any(self._group.owners.get(_ours(each)) is not self for each in offsets)
        if fate is not Fate.ANSWERED:
            self._group.network.failures += 1
        if fate is Fate.DELAYED:  # by the time it takes effect it may be stale
            self._group.network.delayed.append(("commit", carry_out))
        elif is_stale:
            return KafkaError(KafkaError.ILLEGAL_GENERATION)
        elif fate is not Fate.REFUSED:
            carry_out()
        return None if fate is Fate.ANSWERED else KafkaError(KafkaError._TIMED_OUT)

    def assign(self, tps: list[KafkaTopicPartition]) -> None:
        self._positions = {_ours(tp): None for tp in tps}

    def assignment(self) -> list[KafkaTopicPartition]:
        return to_kafka(self.assigned)

    def position(self, tps: list[KafkaTopicPartition]) -> list[KafkaTopicPartition]:
        return [KafkaTopicPartition(tp.topic, tp.partition, self._at(_ours(tp))) for tp in tps]

    def pause(self, partitions: list[KafkaTopicPartition]) -> None:
        self._paused |= {_ours(tp) for tp in partitions}

    def resume(self, partitions: list[KafkaTopicPartition]) -> None:
        self._paused -= {_ours(tp) for tp in partitions}

    def seek(self, partition: KafkaTopicPartition) -> None:
        assert _ours(partition) in self._positions
        self._positions[_ours(partition)] = partition.offset

    # --- inside -----------------------------------------------------------------------------------------------------

    def _records(self, tp: TopicPartition) -> list[str]:
        return self._group.deleted[tp] if tp in self._group.deleted else self._group.records[tp]

    def _at(self, tp: TopicPartition) -> int:
        position = self._positions[tp]
        if position is None:
            position = self._positions[tp] = self._group.committed.get(tp, 0)
        return position


def _ours(tp: Any) -> TopicPartition:
    return TopicPartition(tp.topic, tp.partition)


def to_kafka(tps: Sequence[TopicPartition]) -> list[KafkaTopicPartition]:
    return [KafkaTopicPartition(*tp) for tp in tps]
