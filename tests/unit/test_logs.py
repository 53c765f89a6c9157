"""The lines for the log, the last ones for the status page, and those for the platform's connection test."""

import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from app.errors import FatalError
from app.logs import RecentWarnings, announce_connected, announce_failure, set_up_logging
from tests.support.waiting import join

LIBRARIES = ("azure", "botocore", "boto3", "google", "msal", "s3transfer", "urllib3", "py4j")


@pytest.fixture(autouse=True)
def _restored_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in (*LIBRARIES, "quixstreams")}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, former in levels.items():
        logging.getLogger(name).setLevel(former)


def test_log_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO")
    logging.getLogger("app.consumer.sink").info("sealed %d rows", 7)
    logging.getLogger("app.consumer.sink").debug("not this")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("INFO app.consumer.sink: sealed 7 rows\n")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_requests_of_libraries_are_not_logged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    # Google's library stops its logger's propagation if no handler exists; an earlier test may have caused that.
    monkeypatch.setattr(logging.getLogger(library), "propagate", True)
    set_up_logging("DEBUG")
    logger = logging.getLogger(f"{library}.connection")
    logger.info("a request")
    logger.warning("a retry")
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == ["WARNING"]


@pytest.mark.parametrize(("level", "shown"), [("DEBUG", ["INFO", "WARNING"]), ("INFO", ["WARNING"]), ("ERROR", [])])
def test_information_of_the_framework_is_for_debugging(
    capsys: pytest.CaptureFixture[str], level: str, shown: list[str]
) -> None:
    set_up_logging(level)
    logger = logging.getLogger("quixstreams.app")
    logger.info("started")
    logger.warning("odd")
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == shown


def test_an_uncaught_exception_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "json")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    join(thread)
    [line] = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told["level"] == "ERROR"
    assert told["message"].startswith("not caught: ZeroDivisionError(")
    assert "Traceback" in told["exception"]


def test_a_repeated_message_of_kafkas_client_is_logged_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO")
    logger = logging.getLogger("quixstreams.kafka.consumer")
    for second in (0, 1, 59, 60, 61, 120, 30):  # the last: a clock that is set back
        refused = f"Connect failed: Connection refused (after {second}ms in state CONNECT, {second} identical error(s))"
        _log_at(logger, second, refused)
        _log_at(logger, second, "Group authorization failed")
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "Connect failed" in line]) == 4
    assert len([line for line in lines if "Group authorization" in line]) == 4


def _log_at(logger: logging.Logger, second: float, message: str) -> None:
    record = logger.makeRecord(logger.name, logging.ERROR, "x.py", 1, message, (), None)
    record.created = 1_700_000_000 + second
    logger.handle(record)


def test_the_connection_test_finds_its_line_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("CRITICAL")
    announce_connected()
    assert capsys.readouterr().out == "CONNECTED!\n"


def test_a_failure_says_what_is_wrong_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    announce_failure(FatalError("connecting to s3://lake", "access denied", "Check the keys"))
    assert capsys.readouterr().out == "ERROR! connecting to s3://lake: access denied. Check the keys\n"


def test_the_last_ten_warnings_and_errors_are_remembered_as_far_as_they_are_short() -> None:
    logger = logging.Logger("alone", logging.DEBUG)
    recent = RecentWarnings()
    logger.addHandler(recent)
    logger.info("fine")
    logger.warning("odd: %d", 7)
    logger.error("x" * 10_000)
    long, odd = recent.newest_first()
    assert [(each.level, each.message) for each in (long, odd)] == [("ERROR", "x" * 500 + "…"), ("WARNING", "odd: 7")]
    for number in range(25):
        logger.warning("number %d", number)
    assert [each.message for each in recent.newest_first()] == [f"number {number}" for number in range(24, 14, -1)]
