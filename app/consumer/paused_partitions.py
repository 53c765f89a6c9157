"""Resumes a partition once it is claimed, at the offset of the claim. For the consumer's thread."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.consumer.assignment import Assignments
from app.errors import RetryableError
from app.journal.claims import Claim
from app.journal.kafka_watch import recreated_error
from app.journal.start_offset import Start
from app.model import TopicPartition
from app.monitoring.metrics import Metrics

logger = logging.getLogger(__name__)


class Claiming(Protocol):
    """Claims partitions; see ``app.journal.claims.Claims``."""

    def begin(self, tps: Collection[TopicPartition], token: str, closed: str | None = None) -> None: ...
    def finished(self) -> list[Claim]: ...
    def is_same_topic(self, tp: TopicPartition) -> bool | None: ...
    def check(self) -> None: ...


class PausedPartitions:
    """Keeps partitions paused until they are claimed.

    Args:
        consumer: the consumer of quixstreams.
        claims: claims partitions in the background.
        assignments: get the first offset of each resumed partition.
        metrics: records the same.
    """

    def __init__(
        self, consumer: Any, claims: Claiming, assignments: Assignments, metrics: Metrics | None = None
    ) -> None:
        self._consumer = consumer
        self._claims = claims
        self._assignments = assignments
        self._metrics = metrics or Metrics()
        self._waiting: dict[TopicPartition, Claim | None] = {}
        self._away_since: float | None = None  # when the broker went away

    @property
    def is_complete(self) -> bool:
        """Whether no partition waits for its claim."""
        return not self._waiting

    @property
    def tps(self) -> frozenset[TopicPartition]:
        """The partitions that wait for their claims; safe from any thread."""
        return frozenset(self._waiting)

    def waits(self, tp: TopicPartition) -> bool:
        """Whether this partition waits for its claim."""
        return tp in self._waiting

    def is_heard(self, tp: TopicPartition) -> bool:
        """Whether the partition is being consumed now: it is claimed and not paused, and Kafka is available.

        The client reports when Kafka is away. Its return is noticed with the next message or, if there is none, with
        the client's statistics, which come every 30 seconds.
        """
        return not self._consumer.backpressured_tps and not self.waits(tp) and self._is_broker_there()

    def begin(self, tps: Collection[TopicPartition], token: str, closed: str | None = None) -> None:
        """Pause these partitions, and claim them for the generation with this token; see ``Claims.begin``."""
        self._consumer.pause([_kafka(tp) for tp in tps])
        self._waiting |= dict.fromkeys(tps)
        self._claims.begin(tps, token, closed)

    def end(self, tps: Iterable[TopicPartition]) -> None:
        """Forget these partitions, which are not assigned any more."""
        for tp in tps:
            self._waiting.pop(tp, None)

    def turn(self) -> None:
        """Resume the partitions whose claims have succeeded.

        Raises:
            ConnectorError: a claim failed with an error that no retry corrects, or topic or group changed.
        """
        self._claims.check()
        if not self._waiting:
            return
        claims = self._claims.finished()
        self._waiting |= {claim.tp: claim for claim in claims if claim.tp in self._waiting}
        self._report(claims)
        if self._consumer.backpressured_tps:
            return  # everything is paused, and will be resumed together
        ready = [claim for claim in self._waiting.values() if claim and self._is_there(claim)]
        self._admit({claim.tp: claim.start for claim in ready})
        # The end of back-pressure resumes all partitions, these too.
        self._consumer.pause([_kafka(tp) for tp in self._waiting])

    def _report(self, claims: Iterable[Claim]) -> None:
        log_starts(claims)
        for claim in claims:
            if claim.start.is_loss:
                self._metrics.lost(f"{claim.tp}: {claim.start.remark}")

    def _is_broker_there(self) -> bool:
        since = self._consumer._broker_unavailable_since
        if since is None:
            return True
        if since != self._away_since:
            self._away_since = since
            self._consumer._broker_states.clear()  # they are from before the outage
        if "UP" in self._consumer._broker_states.values():
            self._consumer._broker_available()
            return True
        return False

    def _is_there(self, claim: Claim) -> bool:
        """Seek to the claim's offset; ``False`` while the client has not finished the assignment."""
        try:
            self._consumer.seek(_kafka(claim.tp, claim.start.offset))
        except KafkaException as error:
            if error.args[0].code() == KafkaError._STATE:
                return False
            raise _not_there(claim.tp, claim.start.offset, error) from None
        self._assignments.start(claim.tp, claim.start.offset, claim.start.replayed_to)
        self._metrics.begins(claim.tp, claim.start.offset)
        return True

    def _admit(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Resume partitions that are at their first offset.

        While all partitions are paused, the client's thread for a broker wakes up once a second. A resume does not wake
        it, a seek does: without it the first message comes a second later.
        """
        if not starts:
            return
        self._commit([_kafka(tp, start.offset) for tp, start in starts.items()])
        self._consumer.resume([_kafka(tp) for tp in starts])
        for tp, start in starts.items():
            self._seek(tp, start.offset)
            del self._waiting[tp]
        listed = (f"{tp} from {start.offset}" for tp, start in sorted(starts.items()))
        logger.info("claimed: %s", ", ".join(listed))

    def seek_to_expected(self, tp: TopicPartition, given: int, expected: int) -> None:
        """Seek to the expected offset again, because the client gave an earlier one.

        librdkafka searches for a topic's beginning from the assignment on. A seek may overtake that search; librdkafka
        then searches again half a second later, and goes back to the beginning.

        Raises:
            RetryableError: the topic is not the one that was claimed, or Kafka does not give its id.
        """
        if not self._claims.is_same_topic(tp):
            raise recreated_error(tp, f"Kafka gives offset {given} where {expected} comes next")
        self._seek(tp, expected)
        logger.info("%s: the Kafka client went back to offset %s; sent on to %s again", tp, given, expected)

    def check_topics(self, tps: Iterable[TopicPartition]) -> None:
        """Check after a pause that no topic was recreated: the new one may already have the next offset.

        Raises:
            RetryableError: one of the topics is not the one that was claimed.
        """
        for tp in {tp.topic: tp for tp in tps if tp not in self._waiting}.values():
            if self._claims.is_same_topic(tp) is False:
                raise recreated_error(tp, "it has another id than before the pause")

    def _seek(self, tp: TopicPartition, offset: int) -> None:
        try:
            self._consumer.seek(_kafka(tp, offset))
        except KafkaException as error:
            raise _not_there(tp, offset, error) from None

    def _commit(self, begins: list[KafkaTopicPartition]) -> None:
        """Copy to the group where the partitions begin: records that are in the table would count as lag else."""
        try:
            self._consumer.commit(offsets=begins, asynchronous=True)
        except KafkaException as error:
            logger.warning("the group's offset is not committed yet (%s)", error.args[0].str())


def _not_there(tp: TopicPartition, offset: int, error: KafkaException) -> RetryableError:
    return RetryableError(f"going to offset {offset} of {tp}", error.args[0].str())


def _kafka(tp: TopicPartition, *offset: int) -> KafkaTopicPartition:
    return KafkaTopicPartition(tp.topic, tp.partition, *offset)


def log_starts(claims: Iterable[Claim]) -> None:
    """Log where partitions begin that do not begin at the group's offset, and why."""
    skipped = {claim.tp: claim.start.skipped for claim in claims if claim.start.skipped}
    if skipped:
        logger.warning(
            "%s records after the group's committed offset are in the table already (%s), as after a crash or when "
            "offsets were reset by hand: skipped. To read them again on purpose, stop, set the offsets back and set "
            "FOLLOW_OFFSETS to a new text; they are then in the table twice unless deleted there first",
            f"{sum(skipped.values()):,}",
            ", ".join(f"{tp}: {count:,}" for tp, count in sorted(skipped.items())),
        )
    for claim in claims:
        if claim.start.remark:
            level = logging.ERROR if claim.start.is_loss else logging.WARNING
            logger.log(level, "%s: %s", claim.tp, claim.start.remark)
