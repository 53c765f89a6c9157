"""Texts that people read."""

import pytest

from app.formatting import escape_control, ranges, sentence


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([7], "7"), ([*range(24), 30], "0-23, 30"), ([5, 3, 4, 9, 4], "3-5, 9"), ([1, 3], "1, 3")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größe, 日本, 🙂", "plain, größe, 日本, 🙂"),
        ("a\tb\nc\x00\x1b[31m\x7f\x9b", r"a\u0009b\u000ac\u0000\u001b[31m\u007f\u009b"),
        ("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e", r"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e"),
        ("\u2066\u2067\u2068\u2069\u2028\u2029", r"\u2066\u2067\u2068\u2069\u2028\u2029"),
        ("\ud800x\udfff", r"\ud800x\udfff"),
    ],
)
def test_what_is_not_seen_is_written_out(text: str, shown: str) -> None:
    assert escape_control(text) == shown


@pytest.mark.parametrize(
    ("text", "begin"), [("the store", "The store"), ("s3://lake/x is gone", "s3://lake/x is gone"), ("", "")]
)
def test_a_sentence_begins_with_a_capital_but_a_name_stays(text: str, begin: str) -> None:
    assert sentence(text) == begin
