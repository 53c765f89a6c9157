"""Silence detection from the settings on: on, off, and half on."""

import logging
import threading

import pytest
from quixstreams.models.serializers import DESERIALIZERS

import app.transform
from app.errors import ConfigError
from app.metrics import Metrics
from app.sink import LakeSink
from app.watchful_sink import RawKeys, WatchfulSink
from app.watching import Watch
from app.wiring import new_bad_records, new_sink
from tests.unit.environment import load

ON = {"STREAM_TIMEOUT_MS": "60000"}


@pytest.mark.parametrize("timeout_ms", ["", "0", "-1"])
def test_off_is_the_plain_sink_and_nothing_else(timeout_ms: str) -> None:
    threads = threading.active_count()
    settings = load(STREAM_TIMEOUT_MS=timeout_ms)
    watch = Watch(settings)
    assert type(new_sink(settings, new_bad_records(settings), Metrics(), watch.new_sink)) is LakeSink
    assert isinstance(watch.key_deserializer, DESERIALIZERS["str"])
    assert threading.active_count() == threads
    watch.close()


def test_on_with_a_topic() -> None:
    settings = load(STREAM_TIMEOUT_TOPIC="timeouts", KAFKA_KEY_DESERIALIZER="int", **ON)
    watch = Watch(settings)
    assert type(new_sink(settings, new_bad_records(settings), Metrics(), watch.new_sink)) is WatchfulSink
    assert isinstance(watch.key_deserializer, RawKeys)


def test_on_with_a_function_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.transform, "on_stream_timeout", print)
    settings = load(**ON)
    assert type(new_sink(settings, new_bad_records(settings), Metrics(), Watch(settings).new_sink)) is WatchfulSink


@pytest.mark.parametrize("has_the_name", [True, False])
def test_on_without_anybody_to_tell_is_an_error(has_the_name: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_the_name:  # a transform.py from before there was one
        monkeypatch.delattr(app.transform, "on_stream_timeout")
    with pytest.raises(ConfigError) as caught:
        Watch(load(**ON))
    assert str(caught.value) == (
        "setting up silence detection: STREAM_TIMEOUT_MS is set, and nobody would be told of a silent key. "
        "Set STREAM_TIMEOUT_TOPIC, or define on_stream_timeout(key) in app/transform.py"
    )


def test_a_function_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.transform, "on_stream_timeout", "alerts")
    with pytest.raises(ConfigError, match=r"on_stream_timeout in app/transform.py is 'alerts'\. Make it a function"):
        Watch(load(**ON))


def test_a_function_that_is_never_called_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(app.transform, "on_stream_timeout", print)
    Watch(load())
    assert caplog.messages == ["on_stream_timeout() in app/transform.py is never called: STREAM_TIMEOUT_MS is not set"]
