"""Folder names and keys: how values are escaped, and how long they may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.table.layout import (
    data_key,
    escape,
    folder,
    too_long,
    unescape,
)

ESCAPED = {
    '"': "%22",
    "#": "%23",
    "%": "%25",
    "'": "%27",
    "*": "%2A",
    "/": "%2F",
    ":": "%3A",
    "=": "%3D",
    "?": "%3F",
    "\\": "%5C",
    "{": "%7B",
    "[": "%5B",
    "]": "%5D",
    "^": "%5E",
    "\x00": "%00",
    "\x01": "%01",
    "\n": "%0A",
    "\x1f": "%1F",
    "\x7f": "%7F",
}


@pytest.mark.parametrize(("character", "code"), ESCAPED.items())
def test_what_hive_and_spark_escape_is_escaped_both_ways(character: str, code: str) -> None:
    assert escape(f"a{character}b") == f"a{code}b"
    assert unescape(f"a{code}b") == f"a{character}b"


def test_nothing_else_is_escaped() -> None:
    printable = {chr(code) for code in range(32, 127)}
    assert {character for character in printable if escape(character) != character} == set("\"#%'*/:=?\\{[]^")
    assert escape("ä☃𝄞\x80") == "ä☃𝄞\x80"


def test_lower_case_escapes_of_other_writers_are_understood() -> None:
    assert unescape("a%2fb") == "a/b"


def test_a_lone_percent_sign_of_another_writer_stays() -> None:
    assert unescape("50%") == "50%"
    assert unescape("%zz") == "%zz"


@given(st.text())
def test_escaping_loses_nothing(text: str) -> None:
    assert unescape(escape(text)) == text


def test_column_names_are_escaped_too() -> None:
    assert folder({"a=b/c": "1"}) == "a%3Db%2Fc=1"


def test_no_partition_columns_means_no_folder() -> None:
    assert folder({}) == ""


def test_a_key_is_root_folders_and_name() -> None:
    assert data_key("data/t", {"year": "2024", "place": "a/b"}, "x.parquet") == "data/t/year=2024/place=a%2Fb/x.parquet"
    assert data_key("data/t", {}, "x.parquet") == "data/t/x.parquet"


@pytest.mark.parametrize(("length", "fits"), [(253, True), (254, False)])
def test_a_folder_name_may_have_255_bytes(length: int, fits: bool) -> None:
    assert (too_long("t", {"x": "v" * length}, "n") is None) is fits


@pytest.mark.parametrize(
    ("value", "fits"), [("ü" * 126, True), ("ü" * 127, False), ("/" * 84, True), ("/" * 85, False)]
)
def test_a_folder_name_is_counted_in_bytes_as_it_is_stored(value: str, fits: bool) -> None:
    assert (too_long("t", {"x": value}, "n") is None) is fits


def test_a_folder_name_that_is_too_long_is_refused_with_its_column() -> None:
    assert too_long("t", {"ok": "1", "x": "v" * 300}, "n") == (
        "partition column 'x' needs a folder name of 302 bytes, 255 are allowed"
    )


@pytest.mark.parametrize(("root", "fits"), [("r" * 202, True), ("r" * 203, False)])
def test_a_key_may_have_1024_bytes(root: str, fits: bool) -> None:
    values = dict.fromkeys(("a", "b", "c", "d"), "v" * 200)  # 4 x 202 bytes and their slashes
    assert len(data_key("r" * 202, values, "file.name")) == 1024
    assert (too_long(root, values, "file.name") is None) is fits


def test_a_key_that_is_too_long_is_refused() -> None:
    assert too_long("r" * 1100, {}, "n") == "the file's key has 1102 bytes, 1024 are allowed"
