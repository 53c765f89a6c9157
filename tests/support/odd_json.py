"""JSON texts as odd as they come, byte by byte: most are JSON, some only nearly, and some of them are ordinary."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import NOON

_AROUND = [0, 1, 10**5, 2**31, 2**53, 2**63, 2**64, 10**18, 10**19, 10**20, 1_705_320_000, 1_705_320_000_000]
INTEGERS = st.one_of(
    st.integers(-3, 3),
    st.builds(
        lambda base, sign, more: sign * base + more,
        st.sampled_from(_AROUND),
        st.sampled_from([1, -1]),
        st.integers(-2, 2),
    ),
    st.integers(-(10**26), 10**26),
).map(str)
_DIGITS = st.text("0123456789", min_size=1, max_size=24)
_EXPONENTS = st.sampled_from(["", "", "e0", "E+2", "e-3", "e19", "e-19", "e308", "e309", "e-324", "e-400", "e+0007"])
FRACTIONS = st.one_of(
    st.tuples(INTEGERS, st.just("."), _DIGITS, _EXPONENTS).map("".join),
    st.tuples(INTEGERS, _EXPONENTS).map("".join),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
ODD_NUMBERS = st.sampled_from(
    ["-0", "-0.0", "-0e5", "0e400", "5e-324", "2e-324", "1.7976931348623157e308", "1.7976931348623159e308", "1e400",
     "NaN", "Infinity", "-Infinity", "+1", "01", "-01", "1.", ".5", "1e", "0x10", "1_000", "--1", "9" * 320]
)  # fmt: skip
NUMBERS = st.one_of(INTEGERS, FRACTIONS, ODD_NUMBERS).map(str.encode)

_DAYS = st.sampled_from(
    ["2024-01-15", "2024-02-29", "2023-02-29", "0000-01-01", "0000-12-31", "0001-01-01", "9999-12-31", "10000-01-01",
     "1969-12-31", "1677-09-21", "2262-04-12", "20240115", "2024-W03-1", "2024-1-5", "-001-01-01", "2024-13-01",
     "2016-12-31"]
)  # fmt: skip
_TIMES = st.sampled_from(
    ["", "T12", "T12:30", "T12:30:15", " 12:30:15", "t12:30:15", "T23:59:59", "T23:59:60", "T24:00:00", "T00:00:00",
     "T123015", "T12:30:15 ", "  12:30:15", "T12:60:00", "T1:02:03", "_12:30:15"]
)  # fmt: skip
_FRACTIONS = st.sampled_from(
    ["", "", "", ".1", ".123", ".123456", ".1234567", ".1234560", ".123456789", ",5", ".", ".1234567890"]
)
_ZONES = st.sampled_from(
    ["", "", "Z", "z", "+00:00", "-00:00", "+02:00", "+0200", "+02", "-00:01", "+23:59", "-23:59", "+24:00", "+02:60",
     " Z", "+02:00:30", "UTC", "+2:00"]
)  # fmt: skip
MOMENTS = st.tuples(_DAYS, _TIMES, _FRACTIONS, _ZONES).map("".join).map(str.encode)

_PIECES = st.sampled_from(
    [b"a", b"x1", b" ", b"\\u0061", b"\\u00e9", "é".encode(), "😀".encode(), b"\\ud83d\\ude00", b"\\n", b"\\/", b"/",
     b'\\"', b"\\\\", b"\\u0000", b"{", b"}", b"[", b"]", b":", b",", b"\x7f", "\u2028".encode(), "\ufeff".encode(),
     b"true", b"1", b"\\u0130", "İ".encode(), "\u212a".encode()]
)  # fmt: skip
_BROKEN = st.sampled_from(
    [b"\\ud800", b"\\udc00x", b"\\ud83dx", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8", b"\t", b"\n", b"\x00",
     b"\\x", b"\\u12", b'"']
)  # fmt: skip
TEXTS = st.one_of(
    MOMENTS,
    st.lists(_PIECES, max_size=4).map(b"".join),
    st.lists(_PIECES, max_size=4).map(b"".join),
    st.lists(st.one_of(_PIECES, _BROKEN), max_size=3).map(b"".join),
    NUMBERS,
    st.sampled_from([b"l" * 260, b"__HIVE_DEFAULT_PARTITION__", b"__None__", b"None", b"True", b"nan"]),
).map(lambda inside: b'"' + inside + b'"')

NAMES = st.sampled_from(
    ["a", "b", "A", "B", "\\u0061", "ts_ms", "ts\\u005fms", "TS_MS", "p", "P", "q", "s", "t", "year", "__key", "__Key",
     "__offset", "__topic", "__timestamp", "__kafka_key", "_rescued_data", "_Rescued_Data", "", " ", ".", "a.b", "a[0]",
     "é", "É", "e\u0301", "ß", "ẞ", "SS", "İ",
     "i\u0307", "\u0131", "I", "i", "\u212a", "k", "\\u0000", "\\ud83d\\ude00", "\\n", '\\"']
).map(lambda name: f'"{name}"'.encode())  # fmt: skip

_SPACE = st.sampled_from([b"", b"", b"", b"", b"", b" ", b"\n", b"\t", b"\r", b"  "])
_WORDS = st.sampled_from([b"null", b"true", b"false", b"{}", b"[]", b"[null]", b'{"a":null}', b"nul", b"True", b""])
SCALARS = st.one_of(NUMBERS, NUMBERS, TEXTS, TEXTS, _WORDS)


def objects(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Objects of pairs: a name may come twice."""
    pair = st.tuples(_SPACE, NAMES, _SPACE, st.just(b":"), _SPACE, values).map(b"".join)
    return st.lists(pair, max_size=4).map(lambda pairs: b"{" + b",".join(pairs) + b"}")


def lists(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(values, max_size=3).map(lambda each: b"[" + b",".join(each) + b"]")


def _wrapped(inner: bytes, levels: str) -> bytes:
    for level in levels:
        inner = b"[" + inner + b"]" if level == "l" else b'{"a":' + inner + b"}"
    return inner


DEEP = st.builds(_wrapped, SCALARS, st.text("lo", min_size=3, max_size=40))
VALUES = st.one_of(
    SCALARS, SCALARS, st.recursive(SCALARS, lambda inner: st.one_of(objects(inner), lists(inner)), max_leaves=8), DEEP
)


def _spoilt(text: bytes, at: int, byte: bytes) -> bytes:
    at %= len(text) + 1
    return text[:at] + byte + text[at + 1 :]


RECORDS = st.one_of(
    objects(SCALARS),
    objects(SCALARS),
    objects(VALUES),
    objects(VALUES),
    st.builds(
        _spoilt, objects(SCALARS), st.integers(0, 99), st.sampled_from([b"", b",", b"}", b"\x00", b"\xff", b"1", b" "])
    ),
    VALUES,
)


def alike(value: bytes) -> bytes:
    """A record of the columns that an ordinary one has, and of this value."""
    return b'{"a":' + value + b',"s":"x","ts_ms":1705320000000}'


ALIKE = st.one_of(VALUES, st.one_of(NUMBERS, TEXTS), st.sampled_from([b"1", b"2.5", b'"x"', b"true"])).map(alike)


# An ordinary topic: a few columns, each of one kind, some of them missing.
PLAIN = st.fixed_dictionaries(
    {"a": st.sampled_from([0, 1, 2, 2**53 + 1]), "s": st.sampled_from(["x", "y"])},
    optional={
        "ts_ms": st.sampled_from([NOON, NOON + 3_600_000, None]),
        "b": st.sampled_from([1.5, 2.0, 3, None]),
        "p": st.sampled_from(["u", "v", "w"]),
        "n": st.sampled_from([{"x": 1}, {"x": 2, "y": ["z"]}, {}, None]),
        "l": st.sampled_from([[1], [], [1, None], None]),
    },
).map(lambda value: json.dumps(value).encode())
# 3,000 bytes are more than a record may have in these tests.
_NO_RECORDS = st.sampled_from([None, b"", b"\xff", b"{", b"[]", b"null", b'{"s":"' + b"x" * 3_000 + b'"}'])
_KEYS = st.sampled_from([b"k", b"k2", b"7", b"", None, b"\xff", b"l" * 300, b"k" * 3_000])
_TIMESTAMPS = st.sampled_from(
    [NOON, NOON, NOON + 86_400_000, -1, 0, 86_400_000, 253_402_300_799_999, NOON * 10**3, NOON * 10**6, -(2**63)]
)
_HEADERS = st.sampled_from([None, [], [("h", b"\xff")], [("h", b"1"), ("h", None)], [("h", b"v")] * 1_000])


def batches(values: st.SearchStrategy[bytes], most: int = 3) -> st.SearchStrategy[list[list[KafkaMessage]]]:
    """Batches of messages, most of them with such values, of three partitions and with offsets that rise."""
    value = st.one_of(values, values, values, values, values, values, values, _NO_RECORDS)
    message = st.tuples(value, _KEYS, st.integers(0, 2), _TIMESTAMPS, _HEADERS)
    return st.lists(st.lists(message, min_size=1, max_size=10), min_size=1, max_size=most).map(_numbered)


def _numbered(drawn: list[list[tuple[Any, ...]]]) -> list[list[KafkaMessage]]:
    offsets = iter(range(10**6))
    return [
        [
            KafkaMessage(value, key, next(offsets), partition, timestamp_ms=timestamp, raw_headers=headers)
            for value, key, partition, timestamp, headers in batch
        ]
        for batch in drawn
    ]
