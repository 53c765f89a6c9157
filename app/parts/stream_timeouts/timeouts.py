"""Builds stream timeouts from the settings: the tracker of keys, and the announcer of timeouts."""

import logging
from collections.abc import Collection
from contextlib import ExitStack

from quixstreams import Application
from quixstreams.models import Deserializer

from app.config.settings import Settings
from app.consumer.sink_observer import NOBODY, IsHeard, SinkObserver
from app.errors import ConfigError
from app.parts.stream_timeouts.events import Announcer, EventTopic, Hook
from app.parts.stream_timeouts.tracker import RawKeys, TimeoutTracker
from app.service.kafka import open_topic

logger = logging.getLogger(__name__)


class StreamTimeouts:
    """Makes the observer of the sink; ``NOBODY`` if switched off."""

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
        """It restarts the timer of each arriving key; the topic for events is one of the ``visible`` ones."""
        if not (self._raw_keys and self._settings.stream_timeout_ms):
            return NOBODY
        events = None
        if self._settings.stream_timeout_topic:
            topic = open_topic(self._settings, application, visible, "STREAM_TIMEOUT_TOPIC")
            config = application.config
            events = EventTopic(config.broker_address, config.producer_extra_config, topic.name)
        announcer = Announcer(events, self._hook)
        self._ends.callback(announcer.close)
        return TimeoutTracker(
            timeout_ms=self._settings.stream_timeout_ms,
            max_bytes=self._settings.memory.buffer_mb * 2**20 // 2,
            is_heard=is_heard,
            raw_keys=self._raw_keys,
            notify=announcer.notify,
            on_turn=announcer.turn,
        )
