"""Asks Kafka: one way for all questions, and one table of what the errors of its answers mean."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
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
# The broker is too old for the request, or refuses it.
_NOT_GIVEN = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED, KafkaError.UNSUPPORTED_VERSION})
_HAS_MEMBERS = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)
_LET_IT_READ = "Allow Read on the topic and on the consumer group"
_OWN = "ts-datalake-sink"  # metadata of an offset
_ENDS = "the ends of the partitions"
_ENDS_SECONDS = 10.0  # for an answer
_UNKNOWN = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT, KafkaError.UNKNOWN_TOPIC_OR_PART})


class GroupInUseError(RetryableError):
    """Kafka takes offsets from the members of a group alone while it has any."""


def own_offset(topic: str, partition: int, offset: int) -> KafkaTopicPartition:
    """An offset to commit with the connector's mark. A tool leaves the mark out, or keeps that of another offset."""
    return KafkaTopicPartition(topic, partition, offset, f"{_OWN} {offset}")


def commit(consumers_commit: Callable[..., object], offsets: Sequence[KafkaTopicPartition], doing: str) -> None:
    """Commit offsets with this method of a consumer, and wait for the answer; raises what ``not_committed`` gives."""
    try:
        consumers_commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        raise not_committed(error.args[0], doing) from None


def not_committed(error: KafkaError, doing: str) -> ConnectorError:
    """Retryable while the coordinator moves or the group rebalances; else fatal, for only the user can change it."""
    if error.code() in PASSING_ERRORS:
        kind = GroupInUseError if error.code() in _HAS_MEMBERS else RetryableError
        return kind(doing, error.str(), FROM_LAST_COMMIT)
    return FatalError(doing, error.str(), _LET_IT_READ)


def ask(what: str, question: Callable[[], _T], *, not_given: _T | None = None) -> _T:
    """Return Kafka's answer, or ``not_given`` from a broker that does not know the question; that has a time limit."""
    try:
        return question()
    except KafkaException as error:
        if not_given is not None and error.args[0].code() in _NOT_GIVEN:
            return not_given
        raise failed(what, error.args[0]) from None


def failed(what: str, error: KafkaError) -> ConnectorError:
    """Fatal for a refusal, because a claim would otherwise repeat the question for ever."""
    if error.code() in REFUSED:
        hint = f"{_LET_IT_READ}, which lets them be described too"
        return FatalError(f"asking Kafka for {what}", error.str(), hint).of("Kafka")
    without = unanswered(what, error.str())
    return without.of("topic") if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else without


def unanswered(what: str, cause: str) -> RetryableError:
    """The error where Kafka gives no answer, or none that can be used."""
    return RetryableError(f"asking Kafka for {what}", cause.removeprefix("Local: ")).of("Kafka")  # of librdkafka


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    committed: int | None  # the group's, ``None`` without one
    low: int  # the first offset that Kafka still has
    high: int  # the offset of the next record
    topic_id: str  # of the current topic of that name; empty if the broker does not give it, as the next one
    cluster_id: str = ""
    is_set: bool = False  # a tool or another program has set ``committed``: it lacks the connector's mark


class GroupOffsets:
    """Asks with a consumer of the group that never subscribes: closing the other consumer does not affect it."""

    def __init__(self, consumer: Any, admin: AdminClient, answer_seconds: float = DEFAULT.kafka_answer_seconds) -> None:
        self.consumer = consumer
        self._admin = admin
        self._answer_seconds = answer_seconds
        self._cluster_id: str | None = None

    def of(self, tp: TopicPartition) -> PartitionOffsets:
        """Ask the brokers, without a cache."""
        committed = self._committed([tp])[0]
        low, high = self._watermarks(tp)
        offset = committed.offset if committed.offset >= 0 else None
        is_set = offset is not None and committed.metadata != own_offset(*tp, offset).metadata
        return PartitionOffsets(offset, low, high, self.topic_id(tp.topic), self.cluster_id(), is_set)

    def topic_id(self, topic: str) -> str:
        """The id of the current topic of that name; empty if the broker does not give it."""
        described = partial(self._described, topic)
        return ask(f"the id of topic {topic}", lambda: known_id(str(described().topic_id or "")), not_given="")

    def cluster_id(self) -> str:
        """The id of the cluster; empty if the broker does not give it. Asks once."""
        if self._cluster_id is None:
            # describe_cluster() aborts the process in C where a broker names none, as the only one that comes back.
            listed = partial(self._admin.list_topics, timeout=self._answer_seconds)
            self._cluster_id = ask("the id of the cluster", lambda: known_id(listed().cluster_id), not_given="")
        return self._cluster_id

    def begun(self, topic: str) -> set[TopicPartition]:
        """The partitions of the topic for which the group has an offset."""
        known = ask(f"the partitions of {topic}", partial(self._described, topic)).partitions
        return {*self.committed_offsets([TopicPartition(topic, each.id) for each in known])}

    def committed_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets, where it has any."""
        found = self._committed(tps) if tps else []
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        """The offset of the next record that can be read, for each partition of the topic."""
        return self._of_all(topic, OffsetSpec.latest(), "ends")

    def uncommitted_ends(self, topic: str) -> dict[TopicPartition, int]:
        """The offset of the next record, for each partition of the topic; transactions before it may be open."""
        return self._of_all(topic, OffsetSpec.latest(), "ends", IsolationLevel.READ_UNCOMMITTED)

    def beginnings(self, topic: str) -> dict[TopicPartition, int]:
        """The offset of the first record that Kafka still has, for each partition of the topic."""
        return self._of_all(topic, OffsetSpec.earliest(), "beginnings")

    def since(self, moment: datetime, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset of the first record of this moment or later, for each partition; without one, of its end."""
        milliseconds = max(0, int(moment.timestamp() * 1000))  # negative numbers are words of Kafka
        wanted = [KafkaTopicPartition(*tp, milliseconds) for tp in ends]
        answers = self._each(f"the offsets since {moment.isoformat()}", self.consumer.offsets_for_times, wanted)
        found = {TopicPartition(answer.topic, answer.partition): answer.offset for answer in answers}
        return {tp: found[tp] if found[tp] >= 0 else end for tp, end in ends.items()}

    # --- inside -----------------------------------------------------------------------------------------------------

    def _described(self, topic: str) -> Any:
        """The topic with its partitions, by the brokers."""
        topics = TopicCollection([topic])
        return self._admin.describe_topics(topics, request_timeout=self._answer_seconds)[topic].result()

    def _of_all(
        self, topic: str, spec: OffsetSpec, what: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[TopicPartition, int]:
        def question() -> dict[TopicPartition, int]:
            asked = {KafkaTopicPartition(topic, each.id): spec for each in self._described(topic).partitions}
            answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=self._answer_seconds)
            return {TopicPartition(topic, tp.partition): answer.result().offset for tp, answer in answers.items()}

        found = ask(f"the {what} of topic {topic}", question)
        if min(found.values(), default=0) < 0:  # without an error, where a leader went away
            raise unanswered(f"the {what} of topic {topic}", "a leader does not answer")
        return found

    def _committed(self, tps: Collection[TopicPartition]) -> list[Any]:
        wanted = [KafkaTopicPartition(*tp) for tp in tps]
        return self._each(f"the offsets of {', '.join(map(str, tps))}", self.consumer.committed, wanted)

    def _each(self, what: str, question: Callable[..., list[Any]], wanted: Sequence[KafkaTopicPartition]) -> list[Any]:
        """The answer of a consumer's method for each of these; raises if one of them is an error."""
        answers = ask(what, lambda: question(wanted, timeout=self._answer_seconds))
        for answer in answers:
            if answer.error:
                raise failed(what, answer.error)
        return answers

    def _watermarks(self, tp: TopicPartition) -> tuple[int, int]:
        what = f"the offsets of {tp}"
        watermarks: Callable[[], tuple[int, int] | None] = partial(
            self.consumer.get_watermark_offsets, KafkaTopicPartition(*tp), timeout=self._answer_seconds, cached=False
        )

        def question() -> tuple[int, int] | None:
            try:
                return watermarks()
            except KafkaException as error:
                if error.args[0].code() not in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
                    raise
            # A consumer that never subscribes learns of new partitions only when it asks for them.
            self.consumer.list_topics(tp.topic, timeout=self._answer_seconds)
            return watermarks()

        answer = ask(what, question)
        if answer is None or min(answer) < 0:
            raise unanswered(what, f"the broker answers {answer}")
        return answer


def end_offsets(admin: AdminClient, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The next offset to be produced, of those partitions whose leaders answer; raises if Kafka does not at all.

    For another thread than the consumer's, which learns the ends only from the messages that it fetches. While it is
    paused, as in an outage of the store, a lag computed from them would not change, although it grows.
    """
    admin.poll(0)  # the client writes its log lines only here
    if not tps:  # in an outage Kafka takes all of them away: find out whether it answers
        ask(_ENDS, lambda: admin.list_topics(timeout=_ENDS_SECONDS))
        return {}
    latest = {KafkaTopicPartition(*tp): OffsetSpec.latest() for tp in tps}
    found, unknown = _asked(admin, latest)
    if unknown:  # the client's metadata is older than the partition
        for topic in {tp.topic for tp in tps}:
            error = admin.list_topics(topic, timeout=_ENDS_SECONDS).topics[topic].error
            if error and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise unanswered(_ENDS, f"topic {topic} does not exist").of("topic")
        found, _ = _asked(admin, latest)
    if not found:
        raise unanswered(_ENDS, f"no answer within {_ENDS_SECONDS:.0f} s")
    return found


def _asked(
    admin: AdminClient, latest: Mapping[KafkaTopicPartition, OffsetSpec]
) -> tuple[dict[TopicPartition, int], bool]:
    """The ends, and whether a partition is unknown; then others may have no answer either."""
    found: dict[TopicPartition, int] = {}
    unknown = False
    for asked, answer in admin.list_offsets(latest, request_timeout=_ENDS_SECONDS).items():
        try:
            offset = answer.result().offset
            if offset >= 0:  # it is negative, without an error, where the leader went away
                found[TopicPartition(asked.topic, asked.partition)] = offset
        except KafkaException as error:
            unknown = unknown or error.args[0].code() in _UNKNOWN
            logger.debug("%s[%d]: its end is not known (%s)", asked.topic, asked.partition, error.args[0].str())
    return found, unknown
