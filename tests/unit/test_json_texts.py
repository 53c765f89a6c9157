"""JSON of anything: what it looks like, and that nothing makes it raise."""

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.convert.scalars import OutOfRange
from app.json_texts import to_json


class Nasty:
    def __str__(self) -> str:
        raise RuntimeError("no")


class NastyDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1, "b": [True, None, "ü"]}, '{"a":1,"b":[true,null,"ü"]}'),
        (math.nan, '"NaN"'),
        ([math.inf, -math.inf, 1.5], '["Infinity","-Infinity",1.5]'),
        (MappingProxyType({"a": MappingProxyType({})}), '{"a":{}}'),
        (datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC), '"2025-03-04T05:06:07+00:00"'),
        ([date(2025, 3, 4), time(5, 6)], '["2025-03-04","05:06:00"]'),
        ({"raw": b"\x00\xff"}, '{"raw":"AP8="}'),
        (bytearray(b"\x00\xff"), '"AP8="'),
        (Decimal("1.50"), '"1.50"'),
        (2**70, str(2**70)),
        (OutOfRange(2**31), str(2**31)),
        ("\ud800x", '"\\ud800x"'),
    ],
)
def test_each_kind_of_value_has_its_form(value: Any, expected: str) -> None:
    assert to_json(value) == expected


def test_unusual_keys_become_text() -> None:
    assert json.loads(to_json({("a", 1): 1, b"\xff": 2, None: 3, 7: 4, date(2025, 3, 4): [{}], math.nan: ()})) == {
        "('a', 1)": 1,
        "/w==": 2,
        "null": 3,
        "7": 4,
        "2025-03-04": [{}],
        "NaN": [],
    }


def test_integers_beyond_what_python_writes_in_decimals_are_hexadecimal() -> None:
    value = 10**5000
    assert json.loads(to_json({"n": value, "after": 1})) == {"n": hex(value), "after": 1}
    assert json.loads(to_json({value: 1})) == {hex(value): 1}


def test_what_contains_itself_is_shown_where_it_does() -> None:
    circle: dict[str, Any] = {"a": 1}
    circle["self"] = [circle]
    assert json.loads(to_json(circle)) == {"a": 1, "self": ["{'a': 1, 'self': [{...}]}"]}


def test_the_same_list_twice_is_no_circle() -> None:
    shared = [1]
    assert json.loads(to_json({(): shared, "b": shared})) == {"()": [1], "b": [1]}


def test_nesting_may_be_deeper_than_calls() -> None:
    assert to_json(nested(20_000)) == "[" * 20_001 + "]" * 20_001


SHOWN = "<Nasty that cannot be shown>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Nasty(), SHOWN),
        ([Nasty(), 10**5000], [SHOWN, hex(10**5000)]),
        ({Nasty(): {(): Nasty()}}, {SHOWN: {"()": SHOWN}}),
        (NastyDict(a=1), "{'a': 1}"),
    ],
)
def test_values_that_raise_are_shown_as_far_as_they_can_be(value: Any, expected: Any) -> None:
    assert json.loads(to_json(value)) == expected


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
NUMBERS = st.floats(allow_nan=True) | st.sampled_from([math.nan, math.inf])


@given(JSON_VALUES)
def test_json_comes_back_as_it_was_also_beside_an_unusual_key(value: Any) -> None:
    assert json.loads(to_json(value)) == value
    assert json.loads(to_json({("",): value})) == {"('',)": value}


@given(st.lists(NUMBERS), st.dictionaries(NUMBERS, NUMBERS))
def test_any_reader_of_json_takes_it(some: list[float], by_number: dict[float, float]) -> None:
    for value in (some, by_number, {(): some}):
        json.loads(to_json(value), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
