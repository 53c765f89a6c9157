"""Stream timeouts from the settings on: on, off, and half on."""

import logging
import threading
from typing import Any

import pytest

from app.consumer.deserializers import new_deserializer
from app.consumer.sink_observer import NOBODY
from app.errors import ConfigError
from app.service.stream_timeouts import StreamTimeouts
from app.stream_timeouts.events import Announcer
from app.stream_timeouts.tracker import KeyObserver, RawKeys
from tests.support.environment import load

APPLICATION: Any = None  # is not asked where there is no topic for events
OF_KEYS = new_deserializer("str")
ON = {"STREAM_TIMEOUT_MS": "60000"}


@pytest.mark.parametrize("timeout_ms", ["", "0", "-1"])
def test_off_observes_nothing(timeout_ms: str) -> None:
    threads = threading.active_count()
    settings = load(STREAM_TIMEOUT_MS=timeout_ms)
    timeouts = StreamTimeouts(settings, None, OF_KEYS)
    assert timeouts.new_announcer(APPLICATION, []) is None
    assert timeouts.new_observer(lambda _: True, None) is NOBODY
    assert timeouts.key_deserializer is OF_KEYS
    assert threading.active_count() == threads


@pytest.mark.parametrize(("topic", "function"), [({"STREAM_TIMEOUT_TOPIC": "timeouts"}, None), ({}, print)])
def test_on_with_a_topic_or_a_function_alone(topic: dict[str, str], function: Any) -> None:
    timeouts = StreamTimeouts(load(**topic, **ON), function, OF_KEYS)
    announcer = Announcer(None, print) if topic else timeouts.new_announcer(APPLICATION, [])
    assert isinstance(timeouts.new_observer(lambda _: True, announcer), KeyObserver)
    assert isinstance(timeouts.key_deserializer, RawKeys)


def test_on_without_anybody_to_tell_is_an_error() -> None:
    with pytest.raises(ConfigError, match="Set STREAM_TIMEOUT_TOPIC, or define on_stream_timeout"):
        StreamTimeouts(load(**ON), None, OF_KEYS)


def test_a_function_that_is_never_called_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    StreamTimeouts(load(), print, OF_KEYS)
    [message] = caplog.messages
    assert "STREAM_TIMEOUT_MS is not set" in message
