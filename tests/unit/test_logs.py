"""What goes to the log and what to the platform's connection test."""

import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from app.errors import FatalError
from app.logs import announce_connected, announce_failure, set_up_logging

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
@pytest.mark.parametrize(("level", "shown"), [("DEBUG", ["WARNING"]), ("INFO", ["WARNING"]), ("ERROR", [])])
def test_the_chatter_of_libraries_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, library: str, level: str, shown: list[str]
) -> None:
    # Google's library closes its logger where nobody has set it up before, as an earlier test may have let it do.
    monkeypatch.setattr(logging.getLogger(library), "propagate", True)
    set_up_logging(level)
    logger = logging.getLogger(f"{library}.connection")
    logger.debug("a request")
    logger.info("a request")
    logger.warning("a retry")
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == shown


@pytest.mark.parametrize(("level", "shown"), [("DEBUG", ["INFO", "WARNING"]), ("INFO", ["WARNING"]), ("ERROR", [])])
def test_what_the_framework_says_of_itself_is_for_debugging(
    capsys: pytest.CaptureFixture[str], level: str, shown: list[str]
) -> None:
    set_up_logging(level)
    logger = logging.getLogger("quixstreams.app")
    logger.info("started")
    logger.warning("odd")
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == shown


def test_each_line_can_be_an_object_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "json")
    logging.getLogger("app.consumer.sink").info("sealed %d rows", 7)
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "sealed 7 rows"


def test_what_nobody_caught_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "json")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    [line] = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told["level"] == "ERROR"
    assert told["message"].startswith("not caught: ZeroDivisionError(")
    assert "Traceback" in told["exception"]


def test_setting_up_twice_does_not_double_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO")
    set_up_logging("INFO")
    logging.getLogger("app").info("once")
    assert capsys.readouterr().err.count("once") == 1


def test_the_connection_test_finds_its_line_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("CRITICAL")
    announce_connected()
    assert capsys.readouterr().out == "CONNECTED!\n"


def test_a_failure_says_what_is_wrong_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    announce_failure(FatalError("connecting to s3://lake", "access denied", "Check the keys"))
    assert capsys.readouterr().out == "ERROR! connecting to s3://lake: access denied. Check the keys\n"
