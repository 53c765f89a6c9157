"""Notifies a topic of Kafka, the user's function, or both of a key that timed out.

Nothing here may block the consumer's loop or end it. Each event is sent at most once for a silence, and may be lost.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from quixstreams.kafka import ConnectionConfig, Producer

from app.consumer.errors import at_line_of
from app.logs import OnceAMinute

logger = logging.getLogger(__name__)

# The last flush of the lake has 25 of the 27 s that a stop may take.
_FLUSH_SECONDS = 1.5

Hook = Callable[[bytes], object]


class EventTopic:
    """Sends an event for each silent key, without waiting for an answer. Kafka knows ``topic`` by this name."""

    def __init__(self, broker: ConnectionConfig, extra_config: Mapping[str, Any], topic: str) -> None:
        bounds = {
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 16 * 1024,
            "statistics.interval.ms": 0,  # they wait in memory for a poll, and events may be rare
        }
        self._producer = Producer(broker, extra_config={**extra_config, **bounds})
        self._topic = topic
        self._under_way = 0
        self._losses = OnceAMinute()

    def send(self, key: bytes) -> None:
        event = {"ts_ms": int(time.time() * 1000), "stream": key.decode(errors="replace"), "event": "stream_timeout"}
        self._under_way += 1
        try:
            self._producer.produce(
                self._topic, json.dumps(event), key, buffer_error_max_tries=0, on_delivery=self._answered
            )
        except (BufferError, KafkaException) as error:
            self._under_way -= 1
            self._lose(str(error))

    def turn(self) -> None:
        if self._under_way:
            self._answer(partial(self._producer.poll, 0))

    def close(self) -> None:
        lost = self._losses.count
        if self._under_way and self._answer(partial(self._producer.flush, _FLUSH_SECONDS)):
            lost += self._under_way
        if lost:
            logger.warning("stream timeouts: %s events did not reach topic %s", f"{lost:,}", self._topic)

    def _answer(self, serve: Callable[[], int]) -> int:
        try:
            return serve()
        except KafkaException as error:  # the client refuses all from now on
            self._lose(error.args[0].str())
            return self._under_way

    def _answered(self, error: KafkaError | None, _: Any) -> None:
        self._under_way -= 1
        if error is not None:
            self._lose(error.str())

    def _lose(self, reason: str) -> None:
        if (since := self._losses.turn()) is not None:  # a broker that is away for long loses many
            logger.warning("stream timeouts: an event for topic %s is lost: %s%s", self._topic, reason, since)


class Announcer:
    """Notifies the topic, and the function ``on_stream_timeout`` of ``app.transform``, of a key that timed out."""

    def __init__(self, events: EventTopic | None, hook: Hook | None) -> None:
        self._events = events
        self._hook = hook
        self._failures = OnceAMinute()

    def notify(self, key: bytes) -> None:
        if self._events:
            self._events.send(key)
        if self._hook:
            try:
                self._hook(key)
            except Exception as error:
                logger.debug("on_stream_timeout()", exc_info=True)  # its message may quote the key
                if (since := self._failures.turn()) is not None:
                    raised = type(error).__name__ + at_line_of(error)
                    logger.error("on_stream_timeout() raised %s; going on%s", raised, since)  # noqa: TRY400

    def turn(self) -> None:
        if self._events:
            self._events.turn()

    def close(self) -> None:
        if self._events:
            self._events.close()
