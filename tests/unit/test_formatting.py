"""Texts that people read, and texts from outside, made harmless."""

import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import FatalError
from app.formatting import duration, escape_control, escape_control_in_lines, ranges, rate, sentence, size


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        (ranges, [], ""),
        (ranges, [*range(24), 30], "0-23, 30"),
        (ranges, [5, 3, 4, 9, 4], "3-5, 9"),
        (size, 1_000, "1.0 KB"),
        (size, 2**28, "256 MB"),
        (size, 5 * 2**50, "5,120 TB"),
        (duration, -3, "0 s"),
        (duration, 60, "1 min"),
        (duration, 11_520, "3 h 12 min"),
        (duration, 180_000, "2 d 2 h"),
        (rate, 0.49, "0.5"),
        (rate, 8_250.4, "8,250"),
        (sentence, "the store", "The store"),
        (sentence, "s3://lake/x is gone", "s3://lake/x is gone"),
        (sentence, "", ""),
    ],
)
def test_what_people_read(shown: Callable[[Any], str], value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    "text", ["", "Grüße 🌊", "C:\\new \\u000a", "שלום", "family 👩‍👩‍👧", "a b", "50\N{NO-BREAK SPACE}%"]
)
def test_all_that_is_seen_stays(text: str) -> None:
    assert escape_control(text) == text


def test_no_control_character_and_no_end_of_a_line_is_left() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    left = escape_control(every)
    assert not [character for character in left if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]
    assert not [
        c
        for c in left
        if unicodedata.bidirectional(c) in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    ]
    assert len(left.splitlines()) == 1


def test_lines_are_kept_where_there_may_be_several() -> None:
    assert escape_control_in_lines("one\ntwo\r\n\x1bthree") == "one\ntwo\\u000d\n\\u001bthree"


def test_an_error_is_one_line_whatever_others_say() -> None:
    error = FatalError("asking \x1b[1mx", "the catalog says\n2026-01-01 INFO all is well", "see \u202egpj.exe")
    assert str(error) == ("asking \\u001b[1mx: the catalog says\\u000a2026-01-01 INFO all is well. see \\u202egpj.exe")
    assert error.cause == "the catalog says\\u000a2026-01-01 INFO all is well"
