"""Waits for room in the buffer, and pauses Kafka's client where that takes long."""

import logging

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from app.delivery.assignment import Assignment
from app.delivery.pipeline import Pipeline
from app.monitoring.metrics import Metrics
from app.timings import Timings

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0  # before the client is paused, which drops what it fetched ahead
_FIRST_MESSAGES = 100
_POLL_MESSAGES = 10_000
_POLL_BYTES = 16 * 2**20
TURN_SECONDS = 1.0  # of the functions of transform(): between two polls Kafka's client learns of no rebalance


class Room:
    """For the consumer's thread. ``consumed`` counts messages."""

    def __init__(self, client: Consumer, pipeline: Pipeline, metrics: Metrics, timings: Timings) -> None:
        self._client = client
        self._pipeline = pipeline
        self._metrics = metrics
        self._timings = timings
        self._size = _POLL_BYTES // _FIRST_MESSAGES  # of a message in memory on average, in bytes
        self._in_time = _POLL_MESSAGES  # messages that are taken in a turn
        self._full_since: float | None = None
        self.is_paused = False
        self.consumed = 0

    def unassigned(self) -> None:
        self._full_since, self.is_paused = None, False

    @property
    def most_messages(self) -> int:
        """How many to poll; fewer where they are large, or ``transform()`` is slow."""
        return max(1, min(_POLL_MESSAGES, self._in_time, min(_POLL_BYTES, self._pipeline.room) // self._size))

    def took(self, messages: int, size: int, seconds: float) -> None:
        """Count messages; note their bytes in memory, and how long it took to take them."""
        self.consumed += messages
        if messages:
            self._size = size // messages or self._size
            self._in_time = int(TURN_SECONDS * messages / max(seconds, 1e-6))

    def may_poll(self, assignment: Assignment) -> bool:
        """Whether to poll. Waits a moment for room; if there is none for long, the client is paused and polled."""
        if not self._pipeline.is_full:
            self._full_since = None
            self._pause(assignment, wanted=False)
            return True
        clock = self._timings.clock
        self._full_since = self._full_since or clock()
        if clock() - self._full_since < _PATIENCE_SECONDS:
            self._pipeline.wait_for_change(self._timings.look_seconds)
            return False
        self._pause(assignment, wanted=True)
        return True

    def begin(self, assignment: Assignment) -> None:
        """Read the claimed partitions, each from where it is."""
        claimed = assignment.claimed
        self._client.assign([KafkaTopicPartition(*each.tp, each.taken) for each in claimed])
        # librdkafka keeps a pause over assignments, also of a partition that another member had in between.
        again = self._client.pause if self.is_paused else self._client.resume
        again([KafkaTopicPartition(*each.tp) for each in claimed])

    def _pause(self, assignment: Assignment, *, wanted: bool) -> None:
        if wanted == self.is_paused:
            return
        tps = [KafkaTopicPartition(*each.tp) for each in assignment.claimed]
        if wanted:
            self._client.pause(tps)
            self._metrics.paused()
            logger.warning("the buffer is full: consuming pauses until there is room")
        else:
            self._client.resume(tps)
            logger.info("there is room in the buffer again: consuming continues")
        self.is_paused = wanted
