"""The loop of the plain lane: polls thousands of messages, and copies to Kafka how far they are in the lake.

Consuming begins where the log ends, so Kafka's offset is for people and their tools: a commit needs no answer. A
partition is assigned to the client once it is claimed. So nothing is read before, and no partition is paused for that.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from operator import lt, methodcaller
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from quixstreams.kafka.exceptions import KafkaConsumerException

from app.bad_records.refusals import not_decompressed
from app.consumer.claiming import Claiming, log_starts, mark_set_offsets
from app.consumer.partitions import Partition
from app.consumer.plain.client import BrokerPresence
from app.consumer.plain.sink import MessageSink
from app.errors import RetryableError
from app.journal.claims import Claim
from app.kafka.errors import cannot_be_decompressed, consuming_failed
from app.kafka.questions import own_offset
from app.kafka.watch import recreated_error
from app.model import Message, TopicPartition, known_timestamp
from app.monitoring.consumption import Consumption
from app.monitoring.metrics import Metrics
from app.timings import DEFAULT, Timings

logger = logging.getLogger(__name__)

# The client waits this long for that many messages: the delay of the first one where few come.
_POLL_SECONDS = 0.1
_FIRST_MESSAGES = 100
_POLL_MESSAGES = 10_000
_POLL_BYTES = 16 * 2**20
_PATIENCE_SECONDS = 5.0  # for room in the buffer, before the client is paused, which drops what it fetched ahead
_COPY_AGAIN_SECONDS = 60.0  # a commit that failed is repeated then, if no later one went before
_MOST_CLAIMS_AGAIN = 3  # in ``Timings.claim_again_seconds``

_partition = methodcaller("partition")
_offset = methodcaller("offset")


class PlainLoop:
    """Runs until it is stopped or something fails. ``stop`` is safe in a signal handler; all else is for one thread.

    Args:
        client: Kafka's, which nobody else uses.
        topic: its name.
        sink: takes the messages.
        claims: claim partitions in the background.
        presence: whether Kafka is there.
        on_turn: called at each turn.
        metrics: records offsets, pauses and losses.
        timings: deadlines of flushes.

    """

    def __init__(
        self,
        *,
        client: Consumer,
        topic: str,
        sink: MessageSink,
        claims: Claiming,
        presence: BrokerPresence,
        on_turn: Callable[[], None],
        metrics: Metrics | None = None,
        timings: Timings = DEFAULT,
    ) -> None:
        self._client = client
        self._topic = topic
        self._sink = sink
        self._partitions = sink.partitions
        self._claims = claims
        self._presence = presence
        self._on_turn = on_turn
        self._metrics = metrics or Metrics()
        self._timings = timings
        self._clock = timings.clock
        self._size = _POLL_BYTES // _FIRST_MESSAGES  # of a message in memory on average, in bytes
        self._full_since: float | None = None
        self._copy_again_at = 0.0
        self._claimed_again: deque[float] = deque(maxlen=_MOST_CLAIMS_AGAIN)  # when
        self._is_closing = False
        self._is_stopping = False

    def stop(self) -> None:
        """End the loop after its present turn."""
        self._is_stopping = True

    def run(self) -> bool:
        """Consume until stopped; returns whether all that was read is in the lake.

        Raises:
            ConnectorError: something failed for good, or Kafka says that the topic is another one.
        """
        self._client.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self._is_stopping:
                self._turn()
            self._flush(self._timings.stop_seconds)
            self._sink.raise_failure()
            self._sink.note_delivered()
            return all(each.written >= each.expected for each in self._partitions.claimed)
        finally:
            self._is_closing = True  # the last revocation has nothing to flush
            self._copy(asynchronous=False)
            self._client.close()

    def consumption(self) -> Consumption:
        """How consuming goes; safe from any thread."""
        partitions, sink = self._partitions, self._sink
        return Consumption(
            assigned=len(partitions.tps),
            tps=partitions.tps,
            unclaimed=partitions.unclaimed,
            fenced=partitions.fenced,
            oldest=partitions.oldest_uncommitted,
            consumed=sink.consumed,
            due_in=sink.due_in,
            held_bytes=sink.held_bytes,
            is_full=sink.is_full,
            is_paused=partitions.is_paused,
            is_stopping=self._is_stopping,
        )

    # --- rebalances, in a poll --------------------------------------------------------------------------------------

    def _assigned(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        client.assign([])  # nothing is read before it is claimed
        if tps:
            self._begin([TopicPartition(tp.topic, tp.partition) for tp in tps])
        logger.info("assigned: %s", _listed(tps))

    def _revoked(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        if not self._is_closing:
            self._flush(self._timings.revoke_seconds)
            self._copy(asynchronous=False)
        self._end()
        client.unassign()
        logger.info("given away: %s", _listed(tps))

    def _lost(self, client: Consumer, tps: list[KafkaTopicPartition]) -> None:
        self._end()
        client.unassign()
        logger.warning("lost: %s; their new owner goes on from the journal", _listed(tps))

    def _begin(self, tps: Sequence[TopicPartition], closed: str | None = None) -> None:
        token = self._partitions.begin(tps)
        self._full_since = None
        if self._sink.observer is not None:
            self._sink.observer.assigned(tps)
        self._claims.begin(tps, token, closed)

    def _end(self) -> None:
        tps = self._partitions.tps
        self._metrics.ended(tps)
        if self._sink.observer is not None:
            self._sink.observer.unassigned(tps)
        self._partitions.end()
        self._sink.drop()

    # --- a turn -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._claims.check()
        self._claim_again()
        self._admit()
        if self._has_room():
            self._poll()
        self._sink.turn()
        self._copy(asynchronous=True)
        self._on_turn()

    def _admit(self) -> None:
        """Read the partitions whose claims have succeeded, from where the log ends."""
        claims = [claim for claim in self._claims.finished() if claim.tp in self._partitions.by_tp]
        if not claims:
            return
        self._report(claims)
        mark_set_offsets(claims, self._client.commit)
        for claim in claims:
            self._partitions.by_tp[claim.tp].begin(claim.start.offset)
            self._metrics.begins(claim.tp, claim.start.offset)
        claimed = self._partitions.claimed
        self._client.assign([KafkaTopicPartition(*each.tp, each.expected) for each in claimed])
        # librdkafka keeps a pause over assignments, also of a partition that another member had in between.
        again = self._client.pause if self._partitions.is_paused else self._client.resume
        again([KafkaTopicPartition(*each.tp) for each in claimed])
        listed = (f"{claim.tp} from {claim.start.offset}" for claim in sorted(claims, key=lambda claim: claim.tp))
        logger.info("claimed: %s", ", ".join(listed))

    def _report(self, claims: Sequence[Claim]) -> None:
        log_starts(claims)
        for claim in claims:
            if claim.start.is_loss:
                self._metrics.lost(f"{claim.tp}: {claim.start.remark}")

    def _claim_again(self) -> None:
        """Begin a new generation of the same partitions if another member has closed the log of the present one.

        The claim then asks Kafka whether the partitions are still assigned to this member.
        """
        reason = self._partitions.closed
        if reason is None or not self._may_claim_again():
            self._partitions.end_if_fenced_for_long()
            return
        self._claimed_again.append(self._clock())
        tps = self._partitions.tps
        self._end()
        self._client.assign([])
        self._begin(tps, reason)

    def _may_claim_again(self) -> bool:
        """Whether it has not happened too often: two members of different clusters would do it for ever in turn."""
        if len(self._claimed_again) < _MOST_CLAIMS_AGAIN:
            return True
        return self._clock() - self._claimed_again[0] > self._timings.claim_again_seconds

    def _has_room(self) -> bool:
        """Whether to poll. Waits a moment for room; if there is none for long, the client is paused and polled."""
        if not self._sink.is_full:
            self._full_since = None
            self._pause(wanted=False)
            return True
        self._full_since = self._full_since or self._clock()
        if self._clock() - self._full_since < _PATIENCE_SECONDS:
            self._sink.wait_for_room(self._timings.look_seconds)
            return False
        self._pause(wanted=True)
        return True

    def _pause(self, *, wanted: bool) -> None:
        if wanted == self._partitions.is_paused:
            return
        tps = [KafkaTopicPartition(*each.tp) for each in self._partitions.claimed]
        if wanted:
            self._client.pause(tps)
            self._metrics.paused()
            logger.warning("the buffer is full: consuming pauses until there is room")
        else:
            self._client.resume(tps)
            logger.info("there is room in the buffer again: consuming continues")
        self._partitions.is_paused = wanted

    # --- messages ---------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        most = min(_POLL_MESSAGES, min(_POLL_BYTES, self._sink.room) // self._size)  # fewer where they are large
        polled = self._client.consume(max(1, most), _POLL_SECONDS)
        messages = [message for message in polled if message.error() is None]
        if messages:
            self._presence.heard()
            parts = _by_partition(messages).items()
            taken = sum(self._take(TopicPartition(self._topic, number), of_part) for number, of_part in parts)
            self._size = taken // len(messages) or self._size
        if len(messages) < len(polled):  # the good ones first: an error may end the process
            self._failed([message for message in polled if message.error() is not None])

    def _take(self, tp: TopicPartition, messages: Sequence[Message]) -> int:
        """Hand the messages of a partition to the sink; returns their bytes in memory."""
        partition = self._partitions.by_tp.get(tp)
        if partition is None or not partition.is_claimed:
            return 0  # it was revoked, or assigned again, while these messages were fetched
        offsets = list(map(_offset, messages))
        if offsets[0] < partition.expected or not all(map(lt, offsets, offsets[1:])):
            raise self._went_back(tp, min(offsets), partition.expected)
        size = self._sink.add(partition, messages)
        partition.uncommitted.consumed(offsets[0], known_timestamp(messages[0].timestamp()[1]))
        partition.expected = offsets[-1] + 1
        self._sink.consumed += len(messages)
        return size

    def _went_back(self, tp: TopicPartition, given: int, expected: int) -> RetryableError:
        cause = f"Kafka gives offset {given} where {expected} comes next"
        if self._claims.is_same_topic(tp) is False:
            return recreated_error(tp, cause)
        return RetryableError(f"consuming {tp}", cause, "The next start goes on from the journal")

    def _failed(self, failed: Sequence[Any]) -> None:
        passed_over: set[TopicPartition] = set()  # the client repeats an error
        for message in failed:
            failure = KafkaConsumerException(error=message.error())
            if not cannot_be_decompressed(failure):
                consuming_failed(failure)
                continue
            partition = self._partitions.by_tp.get(TopicPartition(message.topic(), message.partition()))
            if partition and partition.is_claimed and partition.tp not in passed_over:
                passed_over.add(partition.tp)
                self._pass_over(partition, message)

    def _pass_over(self, partition: Partition, message: Any) -> None:
        """Go on behind a message that Kafka's client cannot decompress; the dead letter gets its offset and the reason.

        If several messages were compressed together, the client fails again until the last of them is passed over.
        """
        refusal = not_decompressed(message, max(message.offset(), partition.expected))
        rejected = refusal.rejected
        self._sink.reject(partition, refusal)
        partition.uncommitted.consumed(rejected.offset, rejected.timestamp)
        partition.expected = rejected.offset + 1
        self._sink.consumed += 1
        self._client.seek(KafkaTopicPartition(*partition.tp, partition.expected))

    # --- to the lake, and back to Kafka -----------------------------------------------------------------------------

    def _flush(self, seconds: float) -> None:
        """Bring what was read into the lake, for so long: what is left is read again."""
        if self._partitions.token is not None:
            self._sink.flush(seconds, look_seconds=self._timings.look_seconds)

    def _copy(self, *, asynchronous: bool) -> None:
        """Copy to Kafka how far the partitions are in the lake."""
        self._sink.note_delivered()
        news = [each for each in self._partitions.claimed if each.written > each.copied]
        if news:
            self._metrics.committed({each.tp: each.written for each in news})
        now = self._clock()
        copied = self._partitions.claimed if now >= self._copy_again_at else news
        if not copied:
            return
        self._copy_again_at = now + _COPY_AGAIN_SECONDS
        offsets = [own_offset(*each.tp, each.written) for each in copied]
        try:
            self._client.commit(offsets=offsets, asynchronous=asynchronous)
        except KafkaException as error:
            logger.warning("offsets of what is in the lake already are not committed (%s)", error.args[0].str())
        for each in copied:
            each.copied = each.written


def _by_partition(messages: Sequence[Message]) -> dict[int, list[Message]]:
    found: dict[int, list[Message]] = {}
    for partition, message in zip(map(_partition, messages), messages, strict=True):
        try:
            found[partition].append(message)
        except KeyError:
            found[partition] = [message]
    return found


def _listed(tps: Sequence[KafkaTopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(TopicPartition(tp.topic, tp.partition) for tp in tps)) or "nothing"
