"""Sends an event to ``BATCH_TOPIC`` for each batch in the lake, and for new claims. No batch waits for an event.

Kafka's client retries events while the brokers are unavailable. If the client's memory is full, or Kafka refuses an
event, later events contain its offsets, but not its files.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from threading import Event, RLock, Thread
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from quixstreams.kafka import Producer

from app.journal.log import AssignmentLog
from app.logs import OnceAMinute
from app.model import DataFile, TopicPartition
from app.monitoring.status import complete_to
from app.service.connector import Connector, Lane
from app.service.kafka_client import open_topic

logger = logging.getLogger(__name__)

_BOUNDS: Final = {
    "message.timeout.ms": 0,  # the client retries without a time limit
    "max.in.flight.requests.per.connection": 1,  # keeps the order
    "queue.buffering.max.messages": 1_000,
    "queue.buffering.max.kbytes": 16 * 1024,
    "statistics.interval.ms": 0,
}
_MOST_FILES: Final = 500_000  # bytes of the files in an event; Kafka's default limit of an event is 1 MB
_TURN_SECONDS: Final = 1.0

Ranges = Mapping[TopicPartition, tuple[int | None, int]]
"""The first offset, if known, and the last offset of each partition."""


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
        self._sent: dict[TopicPartition, int] = {}  # the last offset in an event
        self._unsent: dict[str, Ranges] = {}  # by table
        self._lock, self._over, self._failures = RLock(), Event(), OnceAMinute()

    def __enter__(self) -> None:
        self._listeners.append(self._announce)
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(2 * _TURN_SECONDS)

    def run(self) -> None:
        while not self._over.wait(_TURN_SECONDS):
            self._producer.poll(0)
            self._send_rest()
        if count := self._producer.flush(_TURN_SECONDS) + len(self._unsent):
            logger.warning("%d events did not reach topic %s. The next claims send their offsets", count, self._topic)

    def _send_rest(self) -> None:
        with self._lock:
            unsent, self._unsent = self._unsent, {}
            for table, ranges in unsent.items():
                self._send(table, ranges, {"batch": None, "files": None})

    def _announce(self, table: str, log: AssignmentLog) -> None:
        with self._lock:
            ranges: dict[TopicPartition, tuple[int | None, int]] = {}
            for progress in log.partitions:
                is_own, tp = log.state == "pending", progress.tp
                if log.state == "done" or progress.to is not None:
                    last = max(progress.end, -1 if progress.to is None else progress.to)
                    ranges[tp] = self._sent.get(tp, progress.end) + 1 if is_own else None, last
                    self._sent[tp] = last
            files, size = list[dict[str, Any]](), 0
            for file in log.files:
                files.append(_file(file))
                size += len(json.dumps(files[-1]))
                if size > _MOST_FILES:
                    break
            has_batch = log.state != "done"
            batch = {"batch": f"{log.owner}-{log.batch}", "files": files, "files_left_out": len(log.files) - len(files)}
            self._send(table or self._settings.table, ranges, batch if has_batch else {"batch": None, "files": None})

    def _send(self, table: str, ranges: Ranges, batch: Mapping[str, Any]) -> None:
        positions, oldest = self._counts().positions, self._lane.consumption().oldest
        at = complete_to({tp: positions[tp] for tp in ranges}, oldest) if positions.keys() >= ranges.keys() else None
        partitions = [
            {"topic": tp.topic, "partition": tp.partition, "from": first, "to": last}
            for tp, (first, last) in ranges.items()
        ]
        until = at and datetime.fromtimestamp(at, UTC).isoformat()
        event = json.dumps({"table": table, "partitions": partitions, "complete_to": until, **batch})
        answered = partial(self._answered, table, ranges)
        try:
            self._producer.produce(self._topic, event, table, buffer_error_max_tries=0, on_delivery=answered)
        except (BufferError, KafkaException) as error:
            self._keep(table, ranges, str(error))

    def _answered(self, table: str, ranges: Ranges, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._keep(table, ranges, error.str())

    def _keep(self, table: str, ranges: Ranges, reason: str) -> None:
        """Send these offsets later, in one event for each table, without the files."""
        with self._lock:
            former = self._unsent.get(table, {})
            merged = {tp: (former.get(tp, (first,))[0], last) for tp, (first, last) in ranges.items()}
            self._unsent[table] = {**former, **merged}
        if (since := self._failures.turn()) is not None:
            logger.warning("topic %s: %s. Events are merged, without files%s", self._topic, reason, since)


def _file(file: DataFile) -> dict[str, Any]:
    return {"key": file.key, "rows": file.rows, "bytes": file.size, "partition_values": dict(file.partition_values)}
