"""Creates stream timeouts from the settings. If a message key is silent, a Kafka topic or user function is notified.

No notification may block or end the consumer's loop. An event is sent at most once for each silence, and may be lost.
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from quixstreams import Application
from quixstreams.kafka import ConnectionConfig, Producer
from quixstreams.models import Deserializer

from app.config.settings import Settings
from app.consumer.errors import at_line_of
from app.consumer.sink_observer import NOBODY, IsHeard, SinkObserver
from app.errors import ConfigError
from app.logs import OnceAMinute
from app.parts.stream_timeouts.tracker import RawKeys, TimeoutTracker
from app.service.kafka_client import open_topic

logger = logging.getLogger(__name__)

# A stop may last 27 s, and the last flush of the lake may need 25 s of this time.
_FLUSH_SECONDS = 1.5

Hook = Callable[[bytes], object]


class EventTopic:
    """Sends an event for each silent message key to ``topic``, without waiting for an answer."""

    def __init__(self, broker: ConnectionConfig, extra_config: Mapping[str, Any], topic: str) -> None:
        bounds = {
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 16 * 1024,
            "statistics.interval.ms": 0,  # without polls, statistics would fill the memory
        }
        self._producer = Producer(broker, extra_config={**extra_config, **bounds})
        self._topic = topic
        self._unanswered = 0
        self._losses = OnceAMinute()

    def send(self, key: bytes) -> None:
        event = {"ts_ms": int(time.time() * 1000), "stream": key.decode(errors="replace"), "event": "stream_timeout"}
        self._unanswered += 1
        try:
            self._producer.produce(
                self._topic, json.dumps(event), key, buffer_error_max_tries=0, on_delivery=self._answered
            )
        except (BufferError, KafkaException) as error:
            self._unanswered -= 1
            self._lose(str(error))

    def turn(self) -> None:
        if self._unanswered:
            self._answer(partial(self._producer.poll, 0))

    def close(self) -> None:
        lost = self._losses.count
        if self._unanswered and self._answer(partial(self._producer.flush, _FLUSH_SECONDS)):
            lost += self._unanswered
        if lost:
            logger.warning("stream timeouts: %s events did not reach topic %s", f"{lost:,}", self._topic)

    def _answer(self, serve: Callable[[], int]) -> int:
        try:
            return serve()
        except KafkaException as error:  # the client refuses all later events
            self._lose(error.args[0].str())
            return self._unanswered

    def _answered(self, error: KafkaError | None, _: Any) -> None:
        self._unanswered -= 1
        if error is not None:
            self._lose(error.str())

    def _lose(self, reason: str) -> None:
        if (since := self._losses.turn()) is not None:  # a long outage may lose many events
            logger.warning("stream timeouts: an event for topic %s is lost: %s%s", self._topic, reason, since)


def notify(events: EventTopic | None, hook: Hook | None, failures: OnceAMinute, key: bytes) -> None:
    """Send a message key that has timed out to the topic, and to ``on_stream_timeout`` of ``app.transform``."""
    if events:
        events.send(key)
    if hook:
        try:
            hook(key)
        except Exception as error:
            logger.debug("on_stream_timeout()", exc_info=True)  # the error may contain the key
            if (since := failures.turn()) is not None:
                raised = type(error).__name__ + at_line_of(error)
                logger.error("on_stream_timeout() raised %s; continuing%s", raised, since)  # noqa: TRY400


class StreamTimeouts:
    """Creates the observer of the sink. If stream timeouts are switched off, the observer is ``NOBODY``."""

    def __init__(self, settings: Settings, hook: Hook | None, of_keys: Deserializer, ends: ExitStack) -> None:
        self._settings = settings
        self._hook = hook
        self._ends = ends
        self._raw_keys: RawKeys | None = None
        self.key_deserializer = of_keys
        if settings.stream_timeout_ms:
            if not (settings.stream_timeout_topic or hook):
                raise ConfigError(
                    "setting up stream timeouts",
                    "STREAM_TIMEOUT_MS is set, and nothing would be notified of a silent key",
                    "Set STREAM_TIMEOUT_TOPIC, or define on_stream_timeout(key) in app/transform.py",
                )
            self.key_deserializer = self._raw_keys = RawKeys(of_keys)
        elif hook:
            logger.warning("on_stream_timeout() in app/transform.py is never called: STREAM_TIMEOUT_MS is not set")

    def new_observer(self, application: Application, visible: Collection[str], is_heard: IsHeard) -> SinkObserver:
        """Return an observer with a timer for each message key. ``visible`` are the topics that the broker lists."""
        if not (self._raw_keys and self._settings.stream_timeout_ms):
            return NOBODY
        events: EventTopic | None = None
        if self._settings.stream_timeout_topic:
            topic = open_topic(self._settings, application, visible, "STREAM_TIMEOUT_TOPIC")
            config = application.config
            events = EventTopic(config.broker_address, config.producer_extra_config, topic.name)
            self._ends.callback(events.close)
        return TimeoutTracker(
            timeout_ms=self._settings.stream_timeout_ms,
            max_bytes=self._settings.memory.buffer_mb * 2**20 // 2,
            is_heard=is_heard,
            raw_keys=self._raw_keys,
            notify=partial(notify, events, self._hook, OnceAMinute()),
            on_turn=events.turn if events else lambda: None,
        )
