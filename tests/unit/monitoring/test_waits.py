"""What is waited for: since when, and until when."""

import pytest

from app.errors import FatalError, RetryableError, SparkLostError, blaming
from app.monitoring.waits import Waits
from tests.fakes.clock import Clock

STORE = RetryableError("uploading x", "503").of("store")
CATALOG = RetryableError("registering x", "no route to host", "Check CATALOG_URL").of("catalog")


def test_a_wait_lasts_from_the_first_failure_until_it_is_over() -> None:
    clock = Clock()
    waits = Waits(clock)
    waits.failed("upload", RetryableError("uploading x", "no route to host").of("store"))
    clock.advance(40)
    waits.failed("upload", STORE)
    [trouble] = waits.current()
    assert (trouble.system, trouble.cause, trouble.seconds) == ("store", "503", 40)
    waits.over("upload")
    assert waits.current() == ()


def test_the_longest_wait_comes_first() -> None:
    clock = Clock()
    waits = Waits(clock)
    waits.failed("upload", STORE)
    clock.advance(5)
    waits.failed("register", CATALOG)
    waits.failed("ends", RetryableError("asking", "no answer").of("Kafka"), since=clock.now - 20)
    assert [(trouble.system, trouble.seconds) for trouble in waits.current()] == [
        ("Kafka", 20),
        ("store", 5),
        ("catalog", 0),
    ]
    waits.over("nothing that was waited for")
    assert len(waits.current()) == 3


def test_an_answer_that_does_not_come_is_a_wait_until_it_has_come() -> None:
    clock = Clock()
    waits = Waits(clock)
    with waits.answer("journal", "store", "writing the journal", patience=20):
        clock.advance(20)
        assert waits.current() == ()
        clock.advance(5)
        [trouble] = waits.current()
        assert (trouble.system, trouble.doing, trouble.seconds) == ("store", "writing the journal", 25)
        assert trouble.is_unanswered
    assert waits.current() == ()
    waits.failed("upload", STORE)
    with waits.answer("upload", "store", "uploading files", patience=20):
        clock.advance(40)
        [trouble] = waits.current()
    assert (trouble.cause, trouble.is_unanswered) == ("503", False), "it failed before, and that is told"


def test_an_error_keeps_the_system_that_is_nearest_to_it() -> None:
    with pytest.raises(FatalError) as caught, blaming("store"), blaming("catalog"):
        raise FatalError("registering", "refused")
    assert caught.value.system == "catalog"
    assert SparkLostError("writing", "gone").system == "Spark"
    assert FatalError("writing", "refused").system is None
