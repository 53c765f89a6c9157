"""Queries Kafka for ids and offsets, and translates the errors of its answers."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import ceil
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from app.errors import ConnectorError, FatalError, RetryableError
from app.kafka.errors import FROM_LAST_COMMIT, PASSING_ERRORS, REFUSED
from app.kafka.watch import known_id
from app.model import TopicPartition
from app.timings import DEFAULT

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
# The broker is too old for the query, or refuses it.
_UNSUPPORTED = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED, KafkaError.UNSUPPORTED_VERSION})
_HAS_MEMBERS = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)
_ALLOW_READ = "Allow Read on the topic and on the consumer group"
_OWN = "ts-datalake-sink"  # the mark in an offset's metadata
_ENDS = "the ends of the partitions"
_ENDS_SECONDS = 10.0  # time limit of an answer
_UNKNOWN = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT, KafkaError.UNKNOWN_TOPIC_OR_PART})


class GroupInUseError(RetryableError):
    """While a group has members, Kafka accepts offsets only from these members."""


def own_offset(topic: str, partition: int, offset: int) -> KafkaTopicPartition:
    """Return an offset to commit, with the connector's mark. Tools omit the mark or keep an earlier offset's mark."""
    return KafkaTopicPartition(topic, partition, offset, f"{_OWN} {offset}")


def commit(consumers_commit: Callable[..., object], offsets: Sequence[KafkaTopicPartition], doing: str) -> None:
    """Commit offsets with this method of a consumer, and wait for the answer. Raise the error of ``not_committed``."""
    try:
        consumers_commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        raise not_committed(error.args[0], doing) from None


def not_committed(error: KafkaError, doing: str) -> ConnectorError:
    """Return a retryable error if the coordinator moves or the group rebalances. Otherwise return a fatal error."""
    if error.code() not in PASSING_ERRORS:
        return FatalError(doing, error.str(), _ALLOW_READ)
    return (GroupInUseError if error.code() in _HAS_MEMBERS else RetryableError)(doing, error.str(), FROM_LAST_COMMIT)


def ask(what: str, query: Callable[[], _T], *, if_unsupported: _T | None = None) -> _T:
    """Return Kafka's answer to a query; ``if_unsupported`` if the broker does not support the query."""
    try:
        return query()
    except KafkaException as error:
        if if_unsupported is not None and error.args[0].code() in _UNSUPPORTED:
            return if_unsupported
        raise failed(what, error.args[0]) from None


def failed(what: str, error: KafkaError) -> ConnectorError:
    """Return the error of a query. A refusal is fatal, because a claim would otherwise repeat the query for ever."""
    if error.code() in REFUSED:
        hint = f"{_ALLOW_READ}, which includes the right to describe them"
        return FatalError(f"asking Kafka for {what}", error.str(), hint).of("Kafka")
    retryable = unanswered(what, error.str())
    return retryable.of("topic") if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else retryable


def unanswered(what: str, cause: str) -> RetryableError:
    """Return the error of a query without a usable answer; ``cause`` may have librdkafka's prefix."""
    return RetryableError(f"asking Kafka for {what}", cause.removeprefix("Local: ")).of("Kafka")


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    committed: int | None  # the group's offset; ``None`` without an offset
    low: int  # the first offset that Kafka still has
    high: int  # the offset of the next record
    topic_id: str  # id of the current topic of that name; empty if the broker does not report it, as is ``cluster_id``
    cluster_id: str = ""
    is_set: bool = False  # a tool or another program has set ``committed``: the connector's mark is missing


class GroupOffsets:
    """Queries Kafka with a consumer that never subscribes. This consumer works after the other consumer is closed."""

    def __init__(self, consumer: Any, admin: AdminClient, answer_seconds: float = DEFAULT.kafka_answer_seconds) -> None:
        self.consumer = consumer
        self._admin = admin
        self._answer_seconds = answer_seconds
        self._cluster_id: str | None = None

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        """Return the offsets of the partition. The brokers are queried each time."""
        committed = self._committed([tp])[0]
        low, high = self._watermarks(tp)
        offset = committed.offset if committed.offset >= 0 else None
        is_set = offset is not None and committed.metadata != own_offset(*tp, offset).metadata
        return PartitionOffsets(offset, low, high, self.topic_id(tp.topic), self.cluster_id(), is_set)

    def topic_id(self, topic: str) -> str:
        """Return the id of the current topic of this name; empty if the broker does not report the id."""
        what = f"the id of topic {topic}"
        return ask(what, lambda: known_id(str(self._describe(topic).topic_id or "")), if_unsupported="")

    def cluster_id(self) -> str:
        """Return the id of the cluster; empty if the broker does not report the id. Kafka is queried only once."""
        if self._cluster_id is None:
            # describe_cluster() aborts the process in C if a broker lists no broker, as the first after an outage.
            listed = partial(self._admin.list_topics, timeout=self._answer_seconds)
            self._cluster_id = ask("the id of the cluster", lambda: known_id(listed().cluster_id), if_unsupported="")
        return self._cluster_id

    def begun(self, topic: str) -> set[TopicPartition]:
        """Return the partitions of the topic for which the group has an offset."""
        partitions = ask(f"the partitions of {topic}", partial(self._describe, topic)).partitions
        return {*self.committed_offsets([TopicPartition(topic, each.id) for each in partitions])}

    def committed_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's offsets, without partitions that have no offset."""
        offsets = self._committed(tps) if tps else []
        return {TopicPartition(each.topic, each.partition): each.offset for each in offsets if each.offset >= 0}

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        """Return the offset of the next record that can be read, for each partition of the topic."""
        return self._list_offsets(topic, OffsetSpec.latest(), "ends")

    def uncommitted_ends(self, topic: str) -> dict[TopicPartition, int]:
        """Return the offset of the next record, for each partition; transactions before it may be open."""
        return self._list_offsets(topic, OffsetSpec.latest(), "ends", IsolationLevel.READ_UNCOMMITTED)

    def beginnings(self, topic: str) -> dict[TopicPartition, int]:
        """Return the offset of the first record that Kafka still has, for each partition of the topic."""
        return self._list_offsets(topic, OffsetSpec.earliest(), "beginnings")

    def since(self, moment: datetime, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return each partition's first offset of this moment or later; the partition's end without a later record."""
        milliseconds = max(0, ceil(round(moment.timestamp() * 1000, 3)))  # Kafka treats negative numbers specially
        times = [KafkaTopicPartition(*tp, milliseconds) for tp in ends]
        answers = self._ask_all(f"the offsets since {moment.isoformat()}", self.consumer.offsets_for_times, times)
        offsets = {TopicPartition(answer.topic, answer.partition): answer.offset for answer in answers}
        return {tp: offsets[tp] if offsets[tp] >= 0 else end for tp, end in ends.items()}

    # --- inside -----------------------------------------------------------------------------------------------------

    def _describe(self, topic: str) -> Any:
        topics = TopicCollection([topic])
        return self._admin.describe_topics(topics, request_timeout=self._answer_seconds)[topic].result()

    def _list_offsets(
        self, topic: str, spec: OffsetSpec, what: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        def query() -> dict[TopicPartition, int]:
            specs = {KafkaTopicPartition(topic, each.id): spec for each in self._describe(topic).partitions}
            answers = self._admin.list_offsets(specs, isolation_level=isolation, request_timeout=self._answer_seconds)
            return {TopicPartition(topic, tp.partition): answer.result().offset for tp, answer in answers.items()}

        offsets = ask(f"the {what} of topic {topic}", query)
        if min(offsets.values(), default=0) < 0:  # Kafka's answer, without an error, if a leader went away
            raise unanswered(f"the {what} of topic {topic}", "a leader does not answer")
        return offsets

    def _committed(self, tps: Collection[TopicPartition]) -> list[Any]:
        partitions = [KafkaTopicPartition(*tp) for tp in tps]
        return self._ask_all(f"the offsets of {', '.join(map(str, tps))}", self.consumer.committed, partitions)

    def _ask_all(self, what: str, method: Callable[..., list[Any]], tps: Sequence[KafkaTopicPartition]) -> list[Any]:
        """Return the answers of a consumer's method for these partitions. Raise the first error in the answers."""
        answers = ask(what, lambda: method(tps, timeout=self._answer_seconds))
        for answer in answers:
            if answer.error:
                raise failed(what, answer.error)
        return answers

    def _watermarks(self, tp: TopicPartition) -> tuple[int, int]:
        what = f"the offsets of {tp}"
        watermarks: Callable[[], tuple[int, int] | None] = partial(
            self.consumer.get_watermark_offsets, KafkaTopicPartition(*tp), timeout=self._answer_seconds, cached=False
        )

        def query() -> tuple[int, int] | None:
            try:
                return watermarks()
            except KafkaException as error:
                if error.args[0].code() not in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
                    raise
            # A consumer that never subscribes finds new partitions only through this query.
            self.consumer.list_topics(tp.topic, timeout=self._answer_seconds)
            return watermarks()

        answer = ask(what, query)
        if answer is None or min(answer) < 0:
            raise unanswered(what, f"the broker answers {answer}")
        return answer


def end_offsets(admin: AdminClient, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the next offset of partitions whose leaders answer. Raise an error if Kafka does not answer.

    For any thread except the consumer's. A consumer knows the ends only from fetched messages. While the consumer is
    paused, for example in an outage of the store, a lag from these ends would not change, although the lag grows.
    """
    admin.poll(0)  # the client writes its log lines only here
    if not tps:  # in an outage, Kafka revokes all partitions: check whether Kafka answers
        ask(_ENDS, lambda: admin.list_topics(timeout=_ENDS_SECONDS))
        return {}
    latest = {KafkaTopicPartition(*tp): OffsetSpec.latest() for tp in tps}
    ends, has_unknown = _list_ends(admin, latest)
    if has_unknown:  # the client's metadata is older than the partition
        for topic in {tp.topic for tp in tps}:
            error = admin.list_topics(topic, timeout=_ENDS_SECONDS).topics[topic].error
            if error and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise unanswered(_ENDS, f"topic {topic} does not exist").of("topic")
        ends, _ = _list_ends(admin, latest)
    if not ends:
        raise unanswered(_ENDS, f"no answer within {_ENDS_SECONDS:.0f} s")
    return ends


def _list_ends(
    admin: AdminClient, latest: Mapping[KafkaTopicPartition, OffsetSpec]
) -> tuple[dict[TopicPartition, int], bool]:
    """Return the ends, and whether a partition is unknown. If so, other partitions may be missing too."""
    ends: dict[TopicPartition, int] = {}
    has_unknown = False
    for tp, answer in admin.list_offsets(latest, request_timeout=_ENDS_SECONDS).items():
        try:
            offset = answer.result().offset
            if offset >= 0:  # it is negative, without an error, if the leader went away
                ends[TopicPartition(tp.topic, tp.partition)] = offset
        except KafkaException as error:
            has_unknown = has_unknown or error.args[0].code() in _UNKNOWN
            logger.debug("%s[%d]: its end is unknown (%s)", tp.topic, tp.partition, error.args[0].str())
    return ends, has_unknown
