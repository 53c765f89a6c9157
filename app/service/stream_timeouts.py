"""Stream timeouts as a whole: from the settings to what watches keys, and to who is told when one falls silent."""

import logging
from collections.abc import Collection

from app.config.settings import Settings
from app.consumer.application import LakeApplication
from app.consumer.exact_json import new_deserializer
from app.consumer.topics import open_topic
from app.errors import ConfigError
from app.stream_timeouts.events import Announcer, EventTopic, Hook
from app.stream_timeouts.observer import KeyObserver, RawKeys
from app.stream_timeouts.tracker import TimeoutTracker

logger = logging.getLogger(__name__)


class Watch:
    """What a service has of it; switched off, it does nothing.

    Args:
        settings: the connector's settings.
        hook: ``on_stream_timeout`` of ``app.transform``, if there is one.

    Attributes:
        observer: tells the timers what comes to the sink; ``None`` where keys are not watched.
        key_deserializer: reads the input topic's keys.

    Raises:
        ConfigError: nobody would be told of silent keys.
    """

    def __init__(self, settings: Settings, hook: Hook | None) -> None:
        self._hook = hook
        self._topic = settings.stream_timeout_topic
        self._announcer: Announcer | None = None
        self._tracker: TimeoutTracker | None = None
        self.observer: KeyObserver | None = None
        self.key_deserializer = new_deserializer(settings.key_deserializer)
        if settings.stream_timeout_ms:
            _check_someone_listens(self._topic, self._hook)
            half_of_buffer = settings.memory.buffer_mb * 2**20 // 2
            self._tracker = TimeoutTracker(timeout_ms=settings.stream_timeout_ms, max_bytes=half_of_buffer)
            self.key_deserializer = raw_keys = RawKeys(self.key_deserializer)
            self.observer = KeyObserver(self._tracker, raw_keys)
        elif self._hook:
            logger.warning("on_stream_timeout() in app/transform.py is never called: STREAM_TIMEOUT_MS is not set")

    def open(self, application: LakeApplication, visible: Collection[str]) -> None:
        """Find the topic for events, if there is to be one.

        Args:
            application: will send there.
            visible: the topics that Kafka shows us.

        Raises:
            ConfigError: it does not exist.
        """
        if self._tracker is None:
            return
        events = None
        if self._topic:
            topic = open_topic(application, self._topic, visible, variable="STREAM_TIMEOUT_TOPIC", right="Write")
            config = application.config
            events = EventTopic(config.broker_address, config.producer_extra_config, topic.name)
        self._announcer = Announcer(events, self._hook)

    def connect(self, application: LakeApplication) -> None:
        """Let the keys that fall silent be told, before the first record comes."""
        if self._tracker and self._announcer:
            self._tracker.connect(application.listening(), self._announcer)

    def close(self) -> None:
        """Wait a moment for the events that are under way."""
        if self._announcer:
            self._announcer.close()


def _check_someone_listens(topic: str | None, hook: Hook | None) -> None:
    if not (topic or hook):
        raise ConfigError(
            "setting up silence detection",
            "STREAM_TIMEOUT_MS is set, and nobody would be told of a silent key",
            "Set STREAM_TIMEOUT_TOPIC, or define on_stream_timeout(key) in app/transform.py",
        )
