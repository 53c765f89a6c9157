"""The two forms of a line of the log."""

import json
import logging
from typing import Any

import pytest

from app.logs import JsonFormatter, formatter


def record(message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord(
        "app.pipeline.in_flight", logging.INFO, "x.py", 1, message, arguments, more.pop("exc_info", None)
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
        "logger": "app.pipeline.in_flight",
        "message": "sealed 7 rows",
    }


def test_fields_of_a_line_are_beside_its_message() -> None:
    told = line(record("batch 1", fields={"batch": 1, "seconds": {"spark": 0.5}}))
    assert (told["message"], told["batch"], told["seconds"]) == ("batch 1", 1, {"spark": 0.5})


def test_an_exception_is_a_field() -> None:
    error = ValueError("odd\nvalue")
    told = line(record("failed", exc_info=(ValueError, error, None)))
    assert told["message"] == "failed"
    assert told["exception"] == "ValueError: odd\nvalue"


@pytest.mark.parametrize(
    "text", ['quotes " and \\', "two\nlines", "Grüße 🌊", "half \udc80 a character", "\x00\x1b[31m"]
)
def test_any_text_is_one_line_and_comes_back(text: str) -> None:
    assert line(record("%s", text))["message"] == text


def test_fields_of_any_kind_are_no_error() -> None:
    assert line(record("x", fields={"path": object})) == line(record("x", fields={"path": object}))


def test_text_is_for_a_person() -> None:
    assert formatter("text").format(record("sealed %d rows", 7)).endswith(" INFO app.pipeline.in_flight: sealed 7 rows")
