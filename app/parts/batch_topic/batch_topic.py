"""Sends an event to ``BATCH_TOPIC`` for each batch in the lake, and for new claims. No batch waits for an event.

Kafka's client retries events while the brokers are unavailable. If the client's memory is full, or Kafka refuses an
event, later events contain its offsets, but not its files.
"""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from threading import Event, RLock, Thread
from typing import Any, Final

from confluent_kafka import KafkaError
from quixstreams.kafka import Producer

from app.journal.log import AssignmentLog
from app.kafka.errors import error_of
from app.logs import OnceAMinute
from app.model import TopicPartition
from app.monitoring.status import complete_to
from app.service.connector import Connector, Lane
from app.service.kafka_client import open_topic

logger = logging.getLogger(__name__)

_BOUNDS: Final = {
    "message.timeout.ms": 0,  # the client retries without a time limit
    "enable.idempotence": False,  # otherwise a missing right ends the client
    "max.in.flight.requests.per.connection": 1,  # keeps the order
    "queue.buffering.max.messages": 1_000,
    "queue.buffering.max.kbytes": 16 * 1024,
    "linger.ms": 0,  # a killed replica sends no event
}
_MOST_FILES: Final = 500_000  # bytes of the files in an event; Kafka's default limit of an event is 1 MB
_MOST_PARTITIONS: Final = 1_000  # in an event; each needs at most 350 bytes
_WITHOUT_BATCH: Final = {"batch": None, "files": None, "complete_to": None}
_TURN_SECONDS: Final = 1.0

Ranges = dict[TopicPartition, tuple[int, int]]  # the first offset, -1 if unknown, and the last offset


class BatchTopic(Thread):
    """Sends events in the ``with`` block of this object."""

    def __init__(self, connector: Connector, lane: Lane) -> None:
        super().__init__(name="batch-topic", daemon=True)
        application, self._settings, self._lane = lane.application, connector.settings, lane
        visible = connector.visible_topics(application)
        self._topic = open_topic(self._settings, application, visible, "BATCH_TOPIC").name
        config = application.config
        self._producer = Producer(config.broker_address, extra_config={**config.producer_extra_config, **_BOUNDS})
        self._counts, self._listeners = connector.runtime.metrics.counts, connector.runtime.metrics.on_batch
        self._oldest: Mapping[TopicPartition, float] = {}  # of the last turn: reading them may need 20 ms
        self._sent: dict[TopicPartition, int] = {}  # the last offset in an event
        self._unsent: dict[str, Ranges] = {}  # by table
        self._lock, self._over, self._failures = RLock(), Event(), OnceAMinute()

    def __enter__(self) -> None:
        self._listeners.append(lambda table, log: self._attempt(lambda: self._announce(table, log)))
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(2 * _TURN_SECONDS)

    def run(self) -> None:
        while not self._over.wait(_TURN_SECONDS):
            self._attempt(self._turn)
        self._attempt(self._turn)
        if count := self._producer.flush(_TURN_SECONDS) + len(self._unsent):
            logger.warning("%d events did not reach topic %s. The next claims send their offsets", count, self._topic)

    def _attempt(self, work: Callable[[], object]) -> None:
        """Log any error, because events must not end a batch or this thread."""
        try:
            work()
        except Exception as error:
            if (since := self._failures.turn()) is not None:
                logger.warning("topic %s: %r. Please report this as a bug%s", self._topic, error, since, exc_info=True)

    def _turn(self) -> None:
        self._producer.poll(0)
        with self._lock:
            unsent, self._unsent = self._unsent, {}
            for table, ranges in unsent.items():
                self._send(table, ranges, _WITHOUT_BATCH)
        self._oldest = self._lane.consumption().oldest

    def _announce(self, table: str, log: AssignmentLog) -> None:
        files = [
            {"key": each.key, "rows": each.rows, "bytes": each.size, "partition_values": dict(each.partition_values)}
            for each in log.files
        ]
        sizes = accumulate(len(json.dumps(each)) for each in files)
        listed = [each for each, size in zip(files, sizes, strict=True) if size <= _MOST_FILES]
        positions, ranges = self._counts().positions, Ranges()
        with self._lock:
            for progress in log.partitions:
                tp, end, last = progress.tp, progress.end, progress.to
                sent = self._sent.get(tp, end)  # after ``end`` if a former assignment's batch is late
                if log.state == "pending" and last is not None and last > min(sent, end):
                    ranges[tp], self._sent[tp] = (min(sent, end) + 1, last), max(sent, last)
                elif log.state == "done" or (log.state == "kept" and last is not None):
                    ranges[tp], self._sent[tp] = (-1, end), end
            own = {tp: positions[tp] for tp in ranges if tp in positions}
            at = complete_to(own, self._oldest) if len(own) == len(ranges) else None
            batch = {"batch": f"{log.owner}-{log.batch}", "files": listed, "files_left_out": len(files) - len(listed)}
            batch["complete_to"] = at and datetime.fromtimestamp(at, UTC).isoformat()
            self._send(table or self._settings.table, ranges, _WITHOUT_BATCH if log.state == "done" else batch)

    def _send(self, table: str, ranges: Ranges, batch: Mapping[str, Any]) -> None:
        for begin in range(0, len(ranges), _MOST_PARTITIONS):
            part = dict([*ranges.items()][begin : begin + _MOST_PARTITIONS])
            partitions = [
                {"topic": tp.topic, "partition": tp.partition, "from": None if first < 0 else first, "to": last}
                for tp, (first, last) in part.items()
            ]
            event = json.dumps({"table": table, "partitions": partitions, **batch})
            answered = partial(self._answered, table, part, batch is _WITHOUT_BATCH)
            try:
                self._producer.produce(self._topic, event, table, buffer_error_max_tries=0, on_delivery=answered)
            except Exception as error:  # noqa: BLE001 - of any cause
                answered(error_of(error) or KafkaError(KafkaError._FAIL, str(error)), None)

    def _answered(self, table: str, ranges: Ranges, is_short: bool, error: KafkaError | None, _: object) -> None:
        """Send refused offsets later, in one event for each table, without files."""
        if error is None:
            return
        if not is_short or error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
            with self._lock:
                unsent = self._unsent.setdefault(table, {})
                for tp, (first, last) in ranges.items():  # Kafka may refuse the older event later
                    before, after = unsent.get(tp, (first, last))
                    unsent[tp] = min(first, before), max(last, after)
        if (since := self._failures.turn()) is not None:
            logger.warning("topic %s: %s. Events are merged or left out%s", self._topic, error.str(), since)
