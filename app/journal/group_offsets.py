"""Asks Kafka about a topic-partition: the group's offset, what is there, and which topic of which cluster."""

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from app.errors import ConnectorError, FatalError, RetryableError
from app.journal.commit_mark import is_of_another, read_mark
from app.journal.entry import told_id
from app.journal.start_offset import KafkaPosition
from app.model import TopicPartition
from app.timings import DEFAULT

_REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
# The broker is too old to be asked, or does not know the question.
_NOT_TOLD = frozenset(
    {
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,  # it is asked for the cluster's id alone
    }
)


_no_default = object()


class GroupOffsets:
    """Asks with a consumer of its own, which never subscribes, so that closing the other one cannot disturb it.

    Args:
        consumer: of the same group.
        admin: describes topics and the cluster.
        answer_seconds: how long Kafka may take to answer.
    """

    def __init__(self, consumer: Any, admin: AdminClient, answer_seconds: float = DEFAULT.kafka_answer_seconds) -> None:
        self._answer_seconds = answer_seconds
        self._consumer = consumer
        self._admin = admin
        self._cluster_id: str | None = None

    def of(self, tp: TopicPartition) -> KafkaPosition:
        """Ask the brokers; nothing is taken from a cache.

        Raises:
            RetryableError: they do not answer, or not yet.
            FatalError: they refuse to.
        """
        committed = self._committed([tp])[0]
        low, high = self._watermarks(tp)
        offset = committed.offset if committed.offset >= 0 else None
        mark = None if offset is None else read_mark(offset, committed.metadata)
        return KafkaPosition(offset, low, high, self.topic_id(tp.topic), self.cluster_id(), mark)

    def topic_id(self, topic: str) -> str:
        """The id of the topic's present life; empty where the broker does not tell, which is not a change of it.

        Raises:
            RetryableError: it does not answer, or not yet.
            FatalError: it refuses to.
        """
        what = f"the id of topic {topic}"

        def ask() -> str:
            answer = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._answer_seconds)
            return told_id(str(answer[topic].result().topic_id or ""))

        return str(self._asked(what, ask, not_told=""))

    def cluster_id(self) -> str:
        """The id of the cluster; empty where the broker does not tell. It is asked for once.

        Raises:
            RetryableError: the broker does not answer, or not yet.
        """
        if self._cluster_id is None:

            def ask() -> str:
                return told_id(self._admin.describe_cluster(request_timeout=self._answer_seconds).result().cluster_id)

            self._cluster_id = str(self._asked("the id of the cluster", ask, not_told=""))
        return self._cluster_id

    def begun(self, topic: str, topic_id: str) -> set[int]:
        """The partitions for which the group has an offset, of the topic's life with this id as far as that is known.

        Raises:
            ConnectorError: as for ``of``.
        """
        tps = self._partitions(topic)
        found = self._committed(tps) if tps else []
        return {
            each.partition
            for each in found
            if each.offset >= 0 and not is_of_another(read_mark(each.offset, each.metadata), topic_id)
        }

    def ends(self, topic: str) -> dict[int, int]:
        """The offset of the next record to come, for each partition of the topic.

        Raises:
            ConnectorError: as for ``of``.
        """

        def ask() -> dict[int, int]:
            described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._answer_seconds)
            asked = {
                KafkaTopicPartition(topic, partition.id): OffsetSpec.latest()
                for partition in described[topic].result().partitions
            }
            answers = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._answer_seconds
            )
            return {tp.partition: answer.result().offset for tp, answer in answers.items()}

        found: dict[int, int] = self._asked(f"the ends of topic {topic}", ask)
        return found

    # --- inside -----------------------------------------------------------------------------------------------------

    def _committed(self, tps: Iterable[TopicPartition]) -> list[Any]:
        wanted = [KafkaTopicPartition(*tp) for tp in tps]
        what = f"the offsets of {', '.join(f'{tp.topic}[{tp.partition}]' for tp in wanted)}"
        answers: list[Any] = self._asked(what, lambda: self._consumer.committed(wanted, timeout=self._answer_seconds))
        for answer in answers:
            if answer.error:
                raise _failed(what, answer.error)
        return answers

    def _watermarks(self, tp: TopicPartition) -> tuple[int, int]:
        wanted, what = KafkaTopicPartition(*tp), f"the offsets of {tp}"

        def ask() -> tuple[int, int] | None:
            try:
                return self._ask_watermarks(wanted)
            except KafkaException as error:
                if error.args[0].code() not in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
                    raise
            # A consumer that never subscribes learns of new partitions only when it is told to look.
            self._consumer.list_topics(tp.topic, timeout=self._answer_seconds)
            return self._ask_watermarks(wanted)

        low, high = self._asked(what, ask)
        if min(low, high) < 0:
            raise _unknown(what, f"the broker answers {low} and {high}")
        return low, high

    def _ask_watermarks(self, wanted: KafkaTopicPartition) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._consumer.get_watermark_offsets(
            wanted, timeout=self._answer_seconds, cached=False
        )
        return found

    def _partitions(self, topic: str) -> list[TopicPartition]:
        known = self._asked(
            f"the partitions of {topic}", lambda: self._consumer.list_topics(topic, timeout=self._answer_seconds)
        )
        return [TopicPartition(topic, partition) for partition in sorted(known.topics[topic].partitions)]

    def _asked(self, what: str, question: Callable[[], Any], not_told: Any = _no_default) -> Any:
        try:
            answer = question()
        except KafkaException as error:
            if not_told is not _no_default and error.args[0].code() in _NOT_TOLD:
                return not_told
            raise _failed(what, error.args[0]) from None
        if answer is None:
            raise _unknown(what, f"no answer in {self._answer_seconds:.0f} s")
        return answer


def _failed(what: str, error: KafkaError) -> ConnectorError:
    """A refusal does not pass by itself, and a claim would ask for ever."""
    if error.code() in _REFUSED:
        hint = "Allow Read on the topic and on the consumer group, which lets them be described too"
        return FatalError(f"asking Kafka for {what}", error.str(), hint)
    return _unknown(what, error.str())


def _unknown(what: str, cause: str) -> RetryableError:
    return RetryableError(f"asking Kafka for {what}", cause)
