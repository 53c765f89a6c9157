"""Ends the run once all records before ``UNTIL`` are in the lake.

Each member ends once that holds for its own partitions. Those that it leaves are assigned to the others, which find
them at their ends. A member without partitions waits for them.
"""

import logging
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread

from confluent_kafka.admin import AdminClient
from quixstreams import Application

from app.config.settings import Settings
from app.consumer.plain.client import new_client
from app.consumer.until import Until
from app.delivery.runtime import Runtime
from app.errors import ConnectorError
from app.kafka.newest import readable_ends
from app.kafka.questions import GroupOffsets
from app.model import TopicPartition
from app.monitoring.metrics import Metrics
from app.monitoring.waits import Request

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_TRANSACTION_SECONDS = 900.0  # brokers allow no longer transaction by default


def new_until(
    settings: Settings, runtime: Runtime, application: Application, admin: AdminClient, topics: Collection[str]
) -> Until | None:
    """Asks Kafka where the topics end now, or at the time of the setting."""
    if (wanted := settings.until) is None:
        return None
    moment = datetime.now(UTC) - wanted if isinstance(wanted, timedelta) else wanted
    before = moment if isinstance(moment, datetime) else None
    ends: dict[TopicPartition, int] = {}
    waits = runtime.metrics.waits
    with closing(new_client(application.config, {"enable.partition.eof": True})) as consumer:
        offsets = GroupOffsets(consumer, admin, runtime.timings.kafka_answer_seconds)
        last = {topic: waits.at_start("Kafka", partial(offsets.uncommitted_ends, topic)) for topic in topics}
        for topic, last_of_topic in last.items():
            question = partial(readable_ends, offsets, topic, last_of_topic, before)
            ends |= waits.retry(Request("Kafka"), question, give_up_seconds=_TRANSACTION_SECONDS)
    listed = ", ".join(f"{tp}: {end}" for tp, end in sorted(ends.items()))
    logger.info("UNTIL=%s: this run ends before these offsets: %s", wanted, listed)
    return Until(ends)


@dataclass
class RunEnd:
    """Stops the lane at the end of the run.

    Args:
        assigned: returns the partitions of this member, none while they change hands.
        offsets: of the group, which tell of partitions without messages, if those are not claimed.
        internal: topics of quixstreams, which grow while the others are read.
        aside: returns the topics whose tables have failed, and those that are left out.
    """

    until: Until
    metrics: Metrics
    assigned: Callable[[], Collection[TopicPartition]]
    stop_lane: Callable[[], None]
    offsets: GroupOffsets | None = None
    internal: Collection[str] = ()
    aside: Callable[[], Collection[str]] = tuple
    is_reached = False
    _stop: Event = field(init=False, default_factory=Event)

    def start(self) -> None:
        Thread(target=self._run, name="until", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            try:
                if self._has_all():
                    self.is_reached = True
                    aside = ", ".join(sorted(self.aside()))
                    missing = aside and f", but for those of topics that are not written: {aside}"
                    logger.info("UNTIL is reached: all records before it are in the lake%s", missing)
                    self.stop_lane()
                    return
            except ConnectorError as error:
                logger.debug("%s", error)  # the next look asks again

    def _has_all(self) -> bool:
        assigned = self.assigned()
        aside = self.aside()
        if not assigned:
            return self.until.is_empty(aside)
        assigned = [tp for tp in assigned if tp.topic not in aside]
        if self._left(assigned):
            return False
        if self.offsets is not None:
            for topic in self.internal:
                self.until.goes_on(self.offsets.ends(topic))
        return not self._left(assigned)

    def _left(self, assigned: Collection[TopicPartition]) -> bool:
        """Whether records of these partitions are missing: only a claim tells how far a partition is in the lake."""
        in_lake = {tp: each.committed for tp, each in self.metrics.counts().positions.items()}
        left = self.until.left(assigned, in_lake)
        return bool(self.until.left(left, self.offsets.committed_offsets(left)) if self.offsets else left)
