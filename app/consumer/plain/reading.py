"""What Kafka's client reads: the claimed partitions, and as much of them as there is room for."""

import logging

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.consumer.offsets import log_starts, mark_set_offsets
from app.consumer.sink_observer import SinkObserver
from app.delivery.assignment import Partition
from app.delivery.members import Members
from app.errors import RetryableError
from app.model import TopicPartition

logger = logging.getLogger(__name__)

TURN_SECONDS = 1.0  # of the functions of transform(): between two polls Kafka's client learns of no rebalance

_PATIENCE_SECONDS = 5.0  # before the client is paused, which drops what it fetched ahead
_FIRST_MESSAGES = 100
_POLL_MESSAGES = 10_000
_POLL_BYTES = 16 * 2**20


class Reading:
    """Waits for room in the buffer, and pauses Kafka's client where that takes long. For the consumer's thread.

    ``consumed`` counts messages.
    """

    def __init__(self, client: Consumer, members: Members, observer: SinkObserver) -> None:
        self._client = client
        self._members = members
        self._observer = observer
        self._metrics = members.runtime.metrics
        self._timings = members.runtime.timings
        self._partitions: list[Partition] = []
        self._size = _POLL_BYTES // _FIRST_MESSAGES  # of a message in memory on average, in bytes
        self._in_time = _POLL_MESSAGES  # messages that are taken in a turn
        self._full_since: float | None = None
        self._held_back = frozenset[TopicPartition]()
        self.is_paused = False
        self.consumed = 0

    def admit(self) -> None:
        """Read the partitions whose claims have succeeded, from where the log ends, and none that is not claimed."""
        new = self._members.new_claims()
        claims = sorted((claim for _, claim in new), key=lambda claim: claim.tp)
        log_starts(claims, self._metrics)
        mark_set_offsets(claims, self._client.commit)
        for assignment, claim in new:
            assignment.partitions[claim.tp].begin(claim.start.offset)
            self._metrics.begins(claim.tp, claim.start.offset)
        self._assign(self._members.claimed)
        if claims:
            logger.info("claimed: %s", ", ".join(f"{claim.tp} from {claim.start.offset}" for claim in claims))

    def _assign(self, claimed: list[Partition]) -> None:
        """Read these partitions, each from where it is, unless they are those that are read."""
        if claimed == self._partitions:
            return
        self._observer.unassigned([each.tp for each in {*self._partitions} - {*claimed}])
        self._observer.assigned([each.tp for each in {*claimed} - {*self._partitions}])
        self._partitions, self._held_back = claimed, frozenset()
        self._client.assign([KafkaTopicPartition(*each.tp, each.taken) for each in claimed])
        # librdkafka keeps a pause over assignments, also of a partition that another member had in between.
        again = self._client.pause if self.is_paused else self._client.resume
        again([KafkaTopicPartition(*each.tp) for each in claimed])

    def stop(self) -> None:
        """All partitions are given away."""
        self._observer.unassigned([each.tp for each in self._partitions])
        self._partitions, self._held_back = [], frozenset()
        self._full_since, self.is_paused = None, False

    def go_back(self, tp: TopicPartition, offset: int) -> None:
        try:
            self._client.seek(KafkaTopicPartition(*tp, offset))
        except KafkaException as error:
            doing = f"going on with {tp} at offset {offset}"
            raise RetryableError(doing, str(error), "The next start goes on from the journal") from error

    # --- room -------------------------------------------------------------------------------------------------------

    @property
    def most_messages(self) -> int:
        """How many to poll; fewer where they are large, or ``transform()`` is slow."""
        room = self._members.buffer.room // (2 if self._members.has_others else 1)
        return max(1, min(_POLL_MESSAGES, self._in_time, min(_POLL_BYTES, room) // self._size))

    def took(self, messages: int, size: int, seconds: float) -> None:
        """Count messages; note their bytes in memory, and how long it took to take them."""
        if messages:
            # Topics have messages of different sizes: after small ones, a poll could bring many large ones.
            least = self._size * 15 // 16 if self._members.has_others and self.consumed else 1
            self._size = max(size // messages, least)
            self._in_time = int(TURN_SECONDS * messages / max(seconds, 1e-6))
        self.consumed += messages

    def may_poll(self) -> bool:
        """Whether to poll. Waits a moment for room; if there is none for long, the client is paused and polled."""
        self._hold_back()
        clock, buffer = self._timings.clock, self._members.buffer
        if not (buffer.is_full and self._members.assignments):
            self._full_since = None
            self._pause(wanted=False)
            return True
        self._full_since = self._full_since or clock()
        if clock() - self._full_since < _PATIENCE_SECONDS:
            buffer.wait(self._timings.look_seconds)
            self._observer.waited()
            return False
        self._pause(wanted=True)
        return True

    def _hold_back(self) -> None:
        """Pause the partitions of a table with half of the buffer, and leave the rest to the other tables.

        Else one whose records cannot be written would stop them all.
        """
        greedy = frozenset(each.tp for each in self._members.greedy)
        if greedy != self._held_back:
            for act, tps in ((self._client.pause, greedy), (self._client.resume, self._held_back - greedy)):
                act([KafkaTopicPartition(*tp) for tp in tps])
            self._held_back = greedy

    def _pause(self, *, wanted: bool) -> None:
        if wanted == self.is_paused:
            return
        tps = [KafkaTopicPartition(*each.tp) for each in self._partitions]
        if wanted:
            self._client.pause(tps)
            self._metrics.paused()
            logger.warning("the buffer is full: consuming pauses until there is room")
        else:
            self._client.resume(tps)
            self._held_back = frozenset()
            logger.info("there is room in the buffer again: consuming continues")
        self.is_paused = wanted
