"""Cases for both sinks, each with the differences that it shows.

A batch at which the one fails has a good one behind it, so that what is told to the catalog once can be compared.
"""

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from tests.parity.case import NOON, Case, record

_EAST = timezone(timedelta(hours=2))
_WEST = timezone(timedelta(hours=-5))
_GOOD = [{"v": 1}]


def _case(name: str, *batches: list[Any], shows: tuple[str, ...] = (), **settings: Any) -> Case:
    return Case(name, batches, shows=frozenset(shows), **settings)


def _valued(*values: Any, name: str = "p") -> list[Any]:
    return [{name: value} for value in values]


def _deep(levels: int) -> Any:
    return {"a": _deep(levels - 1)} if levels else 1


def _listed(levels: int) -> Any:
    return [_listed(levels - 1)] if levels else 1


FLAT = (
    _case("flat records", [{"n": 1, "x": 1.5, "s": "a", "b": True}, {"n": -1, "x": -2.5, "s": "", "b": False}]),
    _case("text of every sort", [{"s": value} for value in ("", " ", "a\nb", "\x00", "ü", "😀", "null", "x" * 5_000)]),
    _case(
        "many columns", [{f"c{index}": index for index in range(300)}, {f"c{index}": -index for index in range(300)}]
    ),
    _case("many rows", [{"n": index, "s": f"text {index % 7}"} for index in range(2_000)]),
    _case(
        "odd names",
        [{"": 1, " ": 2, "a b": 3, "a.b": 4, "ü": 5, "😀": 6, "x'y\"z": 7, "a/b": 8, "`": 9, "\x01": 10}],
        shows=("names that are empty, have NUL or more than 255 bytes",),
    ),
)

NESTED = (
    _case("structs whose fields come and go", [{"s": {"a": 1}}, {"s": {"b": "x"}}], [{"s": {"a": 1, "b": "y"}}]),
    _case(
        "lists of structs and of lists",
        [{"l": [{"a": 1}, {"b": "x"}], "m": [[1], [], [2, 3]]}, {"l": [None], "m": [[]]}],
    ),
    _case("32 levels", [{"deep": _deep(31)}]),
)

KEYS = (
    _case("keys of fractions", [record({"v": 1}, key=1.5)]),
    _case("keys of objects", [record({"v": 1}, key={"id": 1}), record({"v": 2}, key={"id": 2})]),
    _case("the key as a partition", [record({"v": 1}, key="a"), record({"v": 2}, key=None)], hive_columns="__key"),
)

STAMPS = (
    _case(
        "Kafka's time",
        [record({"v": 1}, timestamp=NOON - 7_200_000), record({"v": 2}, timestamp=NOON)],
        hive_columns="year,month,day,hour",
    ),
    _case("seconds", _valued(NOON // 1000, NOON // 1000 + 3600, name="ts_ms"), hive_columns="year,month,day,hour"),
    _case("milliseconds", _valued(NOON, NOON + 86_400_000, name="ts_ms"), hive_columns="year,month,day,hour"),
    _case("microseconds", _valued(NOON * 10**3, NOON * 10**3 + 1, name="ts_ms"), hive_columns="year,month,day,hour"),
    _case("nanoseconds", _valued(NOON * 10**6, NOON * 10**6 + 1, name="ts_ms"), hive_columns="year,month,day,hour"),
    _case("fractions of seconds", _valued(1.5, 1_705_320_000.75, 0.0, name="ts_ms"), hive_columns="year,hour"),
    _case(
        "text in UTC",
        _valued("2024-01-15", "2024-01-15T23:59:59.123", "1969-12-31 23:00:00", name="t"),
        timestamp_column="t",
        hive_columns="year,month,day,hour",
    ),
    _case(
        "text with zones",
        _valued("2024-01-15T23:30:00-05:00", "2024-01-15T00:30:00+02:00", "2024-01-15T12:00:00Z", name="t"),
        timestamp_column="t",
        hive_columns="year,month,day,hour",
    ),
    _case(
        "moments",
        _valued(datetime(2024, 1, 15, 13), datetime(2300, 1, 1), name="t"),
        timestamp_column="t",
        hive_columns="year,hour",
    ),
    _case(
        "moments with UTC",
        _valued(datetime(2024, 1, 15, 13, tzinfo=UTC), name="t"),
        timestamp_column="t",
        hive_columns="day,hour",
    ),
    _case(
        "days",
        _valued(date(2024, 1, 15), date(1969, 12, 31), name="t"),
        timestamp_column="t",
        hive_columns="year,month,day",
    ),
    _case("a time of null", _valued(None, NOON, name="ts_ms"), hive_columns="year,month"),
    _case(
        "no time at all",
        _valued(None, None, name="ts_ms"),
        [{"ts_ms": NOON}],
        hive_columns="year,hour",
        shows=("columns without any value",),
    ),
    _case(
        "another column holds the time",
        [{"at": NOON - 86_400_000 * 400}, {}],
        timestamp_column="at",
        hive_columns="year,month",
    ),
    _case("a field of the name of a part", [{"year": 1999, "month": "May", "v": 1}], hive_columns="year,month"),
    _case("a part that is no partition", [{"year": 1999, "v": 1}], hive_columns="month"),
)

PARTITIONS = (
    _case(
        "text",
        _valued("a", "b", "a", "A", " ", "a b", "a,b", "é", "😀", "-", ".", "1", "True", "None"),
        hive_columns="p",
    ),
    _case(
        "moments as partitions",
        _valued(datetime(2024, 1, 15, 12), datetime(2024, 1, 15, 12, 0, 0, 5)),
        hive_columns="p",
        shows=("special characters in partition values",),
    ),
    _case("decimals as partitions", _valued(Decimal("1.50"), Decimal("2.25")), hive_columns="p"),
    _case(
        "times of day as partitions",
        _valued(time(12, 30), time(1, 2, 3, 4)),
        hive_columns="p",
        shows=("special characters in partition values",),
    ),
    _case(
        "null, missing, NaN and an empty object",
        [{"p": None}, {}, {"p": math.nan}, {"p": 1.5}],
        [{"p": {}}, {"p": None}],
        hive_columns="p",
    ),
    _case("a partition column that no record has", [{"v": 1}, {"v": 2}], hive_columns="p"),
    _case("four levels", [{"a": "x", "b": 1}, {"a": "y", "b": 1}, {"a": "x"}, {"b": 2}], hive_columns="year,a,month,b"),
    _case("the null folders' names as text", _valued("__None__", "__HIVE_DEFAULT_PARTITION__", None), hive_columns="p"),
    _case("the time column as a partition", _valued(NOON, NOON + 1, name="ts_ms"), hive_columns="ts_ms"),
    _case(
        "rows of many folders in turn",
        [{"p": f"p{index % 5}", "q": index % 3} for index in range(100)],
        hive_columns="p,q",
    ),
)

VIRTUAL = (
    _case(
        "a virtual partition",
        [{"place": place, "driver": driver} for place in "ab" for driver in ("x", "y", None, "x")],
        hive_columns="place,~driver",
    ),
    _case(
        "a virtual partition of each kind",
        [{"i": 1, "x": 1.5, "b": True, "s": "a", "d": date(2024, 1, 1)}, {"i": 2}],
        hive_columns="~i,year,~x,~b,~s,~d",
    ),
    _case(
        "a virtual partition named like a part of the time",
        [{"year": "old"}, {"year": "new"}],
        hive_columns="~year,month",
    ),
)

BOUNDS = (
    _case("bounds of numbers", [{"i": 2**53 + 1, "x": -1.5}, {"i": -5, "x": 2.5}, {"i": None}], hive_columns="year"),
    _case(
        "bounds of moments",
        [{"d": date(2024, 1, 1), "m": datetime(2024, 1, 1, 12)}, {"d": date(1999, 1, 1), "m": None}],
    ),
    _case("bounds of some columns", [{"a": 1, "b": 2, "s": "x"}], stats_columns="b,s,ts_ms"),
    _case("a name with a dot beside a struct", [{"a": {"b": 1}, "a.b": 5}, {"a": {"b": 2}, "a.b": 7}]),
    _case("a sort column", [{"n": 1}, {"n": 2}, {"n": 3}], sort_column="n"),
)

CATALOG = (
    _case("nothing is registered", [{"p": "a"}, {"p": "b"}], hive_columns="p", auto_discover=False),
    _case(
        "partitions and bounds and a sort column",
        [{"p": "a", "n": 1}],
        [{"p": "b", "n": 2}],
        hive_columns="year,p,~n",
        sort_column="n",
        stats_columns="n",
        timestamp_column="at",
    ),
)

INTENDED = (
    _case(
        "two Kafka partitions",
        [record({"p": "a"}, partition=0), record({"p": "a"}, partition=1), record({"p": "b"}, partition=1)],
        hive_columns="p",
        shows=("registration",),
    ),
    _case(
        "special characters",
        _valued(
            "a:b", "50%", "x=y", "a/b", "a//b", "what?", "a*b", "#1", "it's", 'a"b', "a\\b", "a\nb", "[x]", "{y}", "%41"
        ),
        hive_columns="p",
        shows=("special characters in partition values",),
    ),
    _case("a way upwards", _valued("a/../b"), hive_columns="p", shows=("special characters in partition values",)),
    _case(
        "NUL in a folder",
        _valued("a\0b"),
        _valued("a"),
        hive_columns="p",
        shows=("special characters in partition values",),
    ),
    _case("empty text", _valued("", "a", None), hive_columns="p", shows=("empty text as a partition value",)),
    _case(
        "an object of nulls in a folder",
        _valued({"x": None}, None),
        hive_columns="p",
        shows=("an object without any value as a partition value",),
    ),
    _case("bytes in a folder", _valued(b"a", b"bc"), hive_columns="p", shows=("bytes as a partition value",)),
    _case(
        "keys of bytes in a folder",
        [record({"v": 1}, key=b"k1")],
        hive_columns="__key",
        shows=("bytes as a partition value",),
    ),
    _case(
        "whole numbers beside fractions",
        _valued(1, 1.5, True),
        hive_columns="p",
        shows=("partition values in a batch of several kinds",),
    ),
    _case(
        "moments of two zones",
        _valued(datetime(2024, 1, 1, 12, tzinfo=_EAST), datetime(2024, 1, 1, 12, tzinfo=_WEST)),
        hive_columns="p",
        shows=("partition values in a batch of several kinds", "special characters in partition values"),
    ),
    _case(
        "objects in a folder",
        _valued({"a": 1}, {"b": 2}),
        hive_columns="p",
        shows=("partition values in a batch of several kinds",),
    ),
    _case(
        "Kafka's time beside moments",
        [{"ts_ms": datetime(2000, 1, 1)}, {"v": 1}],
        hive_columns="year",
        shows=("partition values in a batch of several kinds", "types"),
    ),
    _case("tombstones and lists", [{"v": 1}, None], [[1, 2]], _GOOD, shows=("bad records",)),
    _case("a time that is none", [{"ts_ms": True}], [{"ts_ms": NOON}], hive_columns="year", shows=("bad records",)),
    _case(
        "a year beyond the calendar",
        [{"ts_ms": 10**11}, {"ts_ms": 10**15 * 99, "v": 1}],
        [{"ts_ms": -(10**11)}],
        _GOOD,
        hive_columns="year",
        shows=("unit of numeric timestamps", "bad records"),
    ),
    _case("a folder of 300 bytes", _valued("x" * 300), _valued("a"), hive_columns="p", shows=("bad records",)),
    _case(
        "names that differ only in case",
        [{"temp": 1, "Temp": 2}, {"Temp": 3}],
        shows=("field names that differ only in case",),
    ),
    _case(
        "fields of our names",
        [record({"__key": "own", "v": 1}), record({"_rescued_data": "x"})],
        shows=("fields named `__key` or `_rescued_data`",),
    ),
    _case("40 levels", [{"deep": _deep(40), "v": 1}], shows=("objects of more than 32 levels, lists of more than 12",)),
    _case(
        "14 lists", [{"deep": _listed(14), "v": 1}], shows=("objects of more than 32 levels, lists of more than 12",)
    ),
    _case("a long name", [{"n" * 300: 1, "v": 1}], shows=("names that are empty, have NUL or more than 255 bytes",)),
    _case(
        "an empty name and one with NUL",
        [{"o": {"": 1}, "a\0b": 2, "v": 1}],
        shows=("names that are empty, have NUL or more than 255 bytes",),
    ),
    _case("a column of nulls", [{"a": None, "b": 1}, {"a": {}}], shows=("columns without any value",)),
    _case("no key", [record({"v": 1}, key=None)], shows=("columns without any value",)),
    _case(
        "a virtual partition of nulls",
        [{"driver": None, "v": 1}],
        hive_columns="~driver",
        shows=("columns without any value",),
    ),
    _case("empty lists", [{"l": []}, {"l": None}], shows=("lists whose elements nobody has seen",)),
    _case("objects of nulls", [{"s": {"a": None}}, {"s": {"a": 1}}], shows=("objects without any value",)),
    _case("an object in an object, both empty", [{"s": {"a": {}}}], _GOOD, shows=("objects without any value",)),
    _case("fractions after whole numbers", [{"x": 1}], [{"x": 1.5}], [{"x": 2}], shows=("types",)),
    _case("1.0 after 1", [{"x": 1}, {"x": 1.0}], [{"x": 3.0}], shows=("types",)),
    _case("fields of an object that other batches have", [{"s": {"a": 1}}], [{"s": {"b": "x"}}], shows=("types",)),
    _case("text after numbers", [{"x": 1, "y": 1}], [{"x": "warm", "y": 2}], shows=("types",)),
    _case("text beside numbers", [{"x": 1}, {"x": "warm"}], _GOOD, shows=("types",)),
    _case("booleans beside fractions", [{"x": 1.5}, {"x": True}], shows=("types",)),
    _case("booleans beside whole numbers", [{"x": 1}, {"x": True}], _GOOD, shows=("types",)),
    _case("beyond 64 bits", [{"x": 2**64}, {"x": 1}], _GOOD, shows=("types",)),
    _case("objects beside numbers", [{"x": {"a": 1}}], [{"x": 1}], shows=("types",)),
    _case("a field of two kinds", [{"x": {"a": 1, "b": 1}}], [{"x": {"a": "text", "b": 2}}], shows=("types",)),
    _case("days beside moments", [{"x": date(2024, 1, 1)}, {"x": datetime(2024, 1, 1, 12)}], shows=("types",)),
    _case("half a character", [{"x": "\ud800"}], _GOOD, shows=("types",)),
    _case(
        "Kafka's time beside text",
        [{"t": "2024-01-15"}, {}],
        _GOOD,
        timestamp_column="t",
        hive_columns="year",
        shows=("types",),
    ),
    _case("bytes beside text in a list", [{"x": ["a", b"\xa4"]}], _GOOD, shows=("types",)),
    _case("a virtual partition of two kinds", [{"x": {"a": 1}}], [{"x": 1}], hive_columns="~x", shows=("types",)),
    _case("decimals", [{"x": Decimal("1.50")}, {"x": Decimal("-2.125")}], shows=("decimals",)),
    _case("time of day", [{"x": time(12, 30)}, {"x": time(1, 2, 3, 4)}], shows=("time of day",)),
    _case(
        "moments with a zone",
        [{"x": datetime(2024, 1, 1, tzinfo=_EAST)}, {"x": datetime(2024, 1, 1, tzinfo=_WEST)}],
        shows=("date and time with a zone",),
    ),
    _case(
        "parts of moments with a zone",
        _valued(datetime(2024, 1, 1, 1, tzinfo=_EAST), name="t"),
        timestamp_column="t",
        hive_columns="year,hour",
        shows=("date and time with a zone",),
    ),
    _case(
        "milliseconds before 1970",
        _valued(-NOON, name="ts_ms"),
        hive_columns="year,month",
        shows=("numeric timestamps before 1970",),
    ),
    _case(
        "half a second before 1970",
        _valued(-0.5, name="ts_ms"),
        hive_columns="year,hour",
        shows=("numeric timestamps before 1970",),
    ),
    _case(
        "two units",
        _valued(NOON, NOON // 1000, name="ts_ms"),
        hive_columns="year,month",
        shows=("unit of numeric timestamps",),
    ),
    _case(
        "an early year",
        _valued(datetime(999, 1, 1), name="t"),
        timestamp_column="t",
        hive_columns="year",
        shows=("years before 1000",),
    ),
    _case(
        "text with and without a zone",
        _valued("2024-01-15T12:00:00", "2024-01-15T12:00:00Z", name="t"),
        _valued("2024-01-15", name="t"),
        timestamp_column="t",
        hive_columns="year",
        shows=("timestamps as text",),
    ),
    _case(
        "text of another age",
        _valued("1500-01-01", name="t"),
        _valued("2024-01-15", name="t"),
        timestamp_column="t",
        hive_columns="year",
        shows=("timestamps as text",),
    ),
    _case("NaN", [{"x": math.nan, "y": 1}, {"x": 1.5, "y": 2}], shows=("columns with NaN or infinity",)),
    _case("infinity", [{"x": math.inf}, {"x": 1.5}], _GOOD, shows=("columns with NaN or infinity",)),
    _case(
        "rows out of order",
        [{"n": 3}, {"n": None}, {"n": 1}, {"n": 2}, {"n": 1}],
        sort_column="n",
        shows=("order in a file",),
    ),
    _case(
        "a list as a virtual partition",
        [{"tags": ["a"], "driver": "x"}],
        hive_columns="~driver,~tags",
        shows=("virtual partitions of objects and lists",),
    ),
)

# Columns of odd types, as virtual partitions.
ODD_INDEX = (
    _case("virtual decimals", [{"x": Decimal("1.5")}, {"x": Decimal("1.50")}], hive_columns="~x", shows=("decimals",)),
    _case("virtual times of day", [{"x": time(12, 30)}, {"x": None}], hive_columns="~x", shows=("time of day",)),
    _case(
        "virtual moments",
        [{"x": datetime(2024, 1, 1, tzinfo=_EAST)}],
        hive_columns="~x",
        shows=("date and time with a zone",),
    ),
    _case(
        "virtual fractions",
        [{"x": math.nan, "v": 1}, {"x": 1.5}],
        hive_columns="~x",
        shows=("columns with NaN or infinity",),
    ),
)

CORPUS = (*FLAT, *NESTED, *KEYS, *STAMPS, *PARTITIONS, *VIRTUAL, *BOUNDS, *CATALOG, *ODD_INDEX, *INTENDED)
