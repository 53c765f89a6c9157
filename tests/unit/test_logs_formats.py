"""The two forms of a line of the log."""

import json
import logging
from typing import Any

import pytest

from app.logs import JsonFormatter, LogFormat, formatter


def record(message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord(
        "app.delivery.flow", logging.INFO, "x.py", 1, message, arguments, more.pop("exc_info", None)
    )
    made.created = 1_700_000_000.25
    made.__dict__.update(more)
    return made


def line(record: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert text.isascii()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_what_is_on_a_line() -> None:
    assert line(record("sealed %d rows", 7)) == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "INFO",
        "logger": "app.delivery.flow",
        "message": "sealed 7 rows",
    }


def test_fields_of_a_line_are_beside_its_message() -> None:
    told = line(record("batch 1", fields={"batch": 1, "seconds": {"spark": 0.5}}))
    assert (told["message"], told["batch"], told["seconds"]) == ("batch 1", 1, {"spark": 0.5})


@pytest.mark.parametrize(
    "text", ['quotes " and \\', "two\nlines", "Grüße 🌊", "half \udc80 a character", "\x00\x1b[31m"]
)
def test_any_text_is_one_line_and_comes_back(text: str) -> None:
    assert line(record("%s", text))["message"] == text


HOSTILE = "one\r\n2026-01-01 00:00:00,000 INFO app: all is well\x1b[2J\x85\u2028\N{RIGHT-TO-LEFT OVERRIDE}"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_what_comes_from_outside_stays_on_its_line(log_format: LogFormat) -> None:
    text = formatter(log_format).format(record("the catalog says: %s", HOSTILE))
    assert len(text.splitlines()) == 1
    assert text.isascii()
    assert text.isprintable()
    assert "\\u202e" in text


def test_an_exception_cannot_begin_a_line_of_the_log() -> None:
    with pytest.raises(ValueError, match="one") as caught:
        raise ValueError(HOSTILE)
    exc_info = (caught.type, caught.value, caught.tb)
    first, *more = formatter("text").format(record("failed", exc_info=exc_info)).split("\n")
    assert first.endswith(": failed")
    assert len(more) > 4
    assert all(line.startswith("    ") and line.isprintable() for line in more)
    assert "Traceback" in more[0]
