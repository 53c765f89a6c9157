"""Folder names and keys: how values are escaped, and how long they may be."""

import pytest

from app.table.layout import data_key, escape, too_long, unescape

ESCAPED = {*map(chr, range(32)), *"\"#%'*/:=?\\{[]^\x7f"}


def test_what_hive_and_spark_escape_is_escaped_both_ways_and_nothing_else() -> None:
    for character in (*map(chr, range(256)), "☃", "𝄞"):
        code = f"%{ord(character):02X}" if character in ESCAPED else character
        assert escape(f"a{character}b") == f"a{code}b"
        assert unescape(f"a{code}b") == f"a{character}b"


@pytest.mark.parametrize(("text", "read"), [("a%2fb", "a/b"), ("50%", "50%"), ("%zz", "%zz")])
def test_escapes_of_other_writers_are_understood_and_a_lone_percent_sign_stays(text: str, read: str) -> None:
    assert unescape(text) == read


@pytest.mark.parametrize(("fits", "more"), [("v" * 253, "v"), ("ü" * 126, "ü"), ("/" * 84, "/")])
def test_a_folder_name_may_have_255_bytes_as_it_is_stored(fits: str, more: str) -> None:
    assert too_long("t", {"x": fits}, "n") is None
    assert too_long("t", {"x": fits + more}, "n") is not None


@pytest.mark.parametrize(
    ("root", "values", "reason"),
    [
        ("t", {"ok": "1", "x": "v" * 300}, "partition column 'x' needs a folder name of 302 bytes, 255 are allowed"),
        ("r" * 1100, {}, "the file's key has 1102 bytes, 1024 are allowed"),
    ],
)
def test_what_is_too_long_is_named(root: str, values: dict[str, str], reason: str) -> None:
    assert too_long(root, values, "n") == reason


@pytest.mark.parametrize(("root", "fits"), [("r" * 202, True), ("r" * 203, False)])
def test_a_key_may_have_1024_bytes(root: str, fits: bool) -> None:
    values = dict.fromkeys(("a", "b", "c", "d"), "v" * 200)  # 4 x 202 bytes and their slashes
    assert len(data_key("r" * 202, values, "file.name")) == 1024
    assert (too_long(root, values, "file.name") is None) is fits
