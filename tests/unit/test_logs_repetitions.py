"""What libraries say at every try while a broker is away is told once a minute."""

import logging

import pytest

from app.logs import _Repetitions

REFUSED = (
    "FAIL 127.0.0.1:9092/1: Connect failed: Connection refused (after %dms in state CONNECT, %d identical error(s))"
)


@pytest.fixture
def told() -> list[float]:
    """Seconds at which a message came through."""
    return []


def _say(repetitions: _Repetitions, told: list[float], second: float, message: str, *arguments: object) -> None:
    record = logging.LogRecord("quixstreams.kafka.consumer", logging.ERROR, "x.py", 1, message, arguments, None)
    record.created = 1_700_000_000 + second
    if repetitions.filter(record):
        told.append(second)


def test_a_message_that_differs_in_numbers_alone_comes_through_once_a_minute(told: list[float]) -> None:
    repetitions = _Repetitions()
    for second in range(130):
        _say(repetitions, told, second, REFUSED, second, second)
    assert told == [0, 60, 120]


def test_different_messages_do_not_hide_each_other(told: list[float]) -> None:
    repetitions = _Repetitions()
    _say(repetitions, told, 1, "1/1 brokers are down")
    _say(repetitions, told, 2, REFUSED, 1, 1)
    _say(repetitions, told, 3, "Group authorization failed")
    assert told == [1, 2, 3]


def test_a_clock_that_is_set_back_hides_nothing(told: list[float]) -> None:
    repetitions = _Repetitions()
    for second in (7200, 0, 30, 61):
        _say(repetitions, told, second, REFUSED, second, second)
    assert told == [7200, 0, 61]
