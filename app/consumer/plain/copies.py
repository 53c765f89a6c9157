"""Copies to Kafka how far partitions are in the lake, for people and their tools: the log says where to begin."""

import logging

from confluent_kafka import Consumer, KafkaException

from app.delivery.assignment import Assignment
from app.kafka.questions import own_offset
from app.monitoring.metrics import Metrics
from app.timings import Timings

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 60.0  # a commit that failed is repeated then, if no later one went before


class Copies:
    """For the consumer's thread. A commit needs no answer."""

    def __init__(self, client: Consumer, metrics: Metrics, timings: Timings) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = timings.clock
        self._again_at = 0.0

    def copy(self, assignment: Assignment, *, asynchronous: bool) -> None:
        """Commit what is news, and everything once a minute."""
        offsets = dict(assignment.to_commit())
        if offsets:
            self._metrics.committed({each.tp: offset for each, offset in offsets.items()})
        now = self._clock()
        if now >= self._again_at:
            offsets = {each: each.copied for each in assignment.claimed} | offsets
        if not offsets:
            return
        self._again_at = now + _AGAIN_SECONDS
        try:
            self._client.commit(
                offsets=[own_offset(*each.tp, offset) for each, offset in offsets.items()], asynchronous=asynchronous
            )
        except KafkaException as error:
            logger.warning("offsets of what is in the lake already are not committed (%s)", error.args[0].str())
        for each, offset in offsets.items():
            each.copied = offset
