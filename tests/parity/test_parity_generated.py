"""Records that nobody thought of, through both sinks: they differ as documented, and in nothing else.

They are the same ones in every run, unless ``PARITY_EXAMPLES`` says how many others each test is to try.
"""

import os
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.arrow_writer import ArrowWriter
from tests.parity.case import NOON, Case, record
from tests.parity.differences import ALWAYS
from tests.parity.running import findings_of, titles

EXAMPLES = int(os.environ.get("PARITY_EXAMPLES", "100"))
thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PARITY_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

# Text of any sort, but halves of characters; with what is special in a folder's name and with what is not.
letters = st.characters(exclude_categories=["Cs"])
texts = st.one_of(st.sampled_from(["", "a", "b", "a/b", "50%", "é", " "]), st.text(letters, max_size=5))
tame_texts = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=5)
whole = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
moments = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1))
fractions = st.floats(allow_nan=False, allow_infinity=False)

# Of each of these kinds both sinks make the same column, whatever the values.
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "whole": whole,
    "fraction": fractions,
    "flag": st.booleans(),
    "text": texts,
    "bytes": st.binary(max_size=3),
    "day": st.dates(),
    "moment": moments,
    "moment in UTC": moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    "numbers": st.lists(whole, min_size=1, max_size=3),
    "texts": st.lists(texts, min_size=1, max_size=3),
    "object": st.fixed_dictionaries({"a": whole}, optional={"b": texts, "c.d": st.lists(st.booleans(), min_size=1)}),
    "objects": st.lists(st.fixed_dictionaries({"a": whole, "b": texts}), min_size=1, max_size=2),
}
FOLDERS = ("whole", "fraction", "flag", "day", "tame text")
NAMES = ("a", "b", "c.d", "ü", "x y")
# A column without a value is void there and absent here; what other batches or Kafka partitions have is null here.
OF_STEADY_RECORDS = {
    "columns without any value",
    "types",
    "empty text as a partition value",
    "special characters in partition values",
    "registration",
    "virtual partitions of objects and lists",
}


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, st.none())


@st.composite
def steady_cases(draw: st.DrawFn) -> Case:
    """Each column keeps to one kind, as in a topic that is in order; values may be null or missing."""
    kinds = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(KINDS)), max_size=4))
    folder = draw(st.sampled_from([*FOLDERS, "text"]))
    values = {**{name: KINDS[kind] for name, kind in kinds.items()}, "p": {**KINDS, "tame text": tame_texts}[folder]}
    fields = st.fixed_dictionaries({}, optional={name: _maybe(each) for name, each in values.items()})
    stamps = st.integers(10**11 + 1, 10**13)
    keys = draw(st.sampled_from([texts, whole, st.binary(max_size=3)]))
    records = st.builds(record, fields, key=_maybe(keys), timestamp=stamps, partition=st.integers(0, 1))
    batches = draw(st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=3))
    columns = draw(st.sampled_from(["", "p", "year,month,day,hour", "year,p,hour", "~p", "day,~p,~a"]))
    stats = draw(st.sampled_from(["", "a,b", "ts_ms"]))
    return Case("steady", batches, hive_columns=columns, stats_columns=stats)


zones: Any = st.sampled_from([None, UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5))])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    whole,
    st.sampled_from([2**63, 2**64, 2**53 + 1, -0.0, 1.0, 1.5]),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones),
    st.times(),
    st.decimals(-1000, 1000, places=2),
    st.just(Decimal("1e-18")),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "A", "b", ""]), inner, max_size=3)
    ),
    max_leaves=4,
)
any_stamp = st.one_of(
    st.integers(-(10**19), 10**19),
    st.integers(10**9, 10**10),
    st.integers(10**12, 10**13),
    st.floats(),
    st.sampled_from(["2024-01-15", "2024-01-15T12:00:00Z", "1500-01-01", "never", True, None, [1], NOON]),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones),
    st.dates(),
)


@st.composite
def wild_cases(draw: st.DrawFn) -> Case:
    """Anything at all, one odd column at a time among sound ones; behind it a good batch."""
    odd = draw(st.sampled_from(["x", "X", "p", "ts_ms", "__key", "_rescued_data", "year"]))
    values = any_stamp if odd == "ts_ms" else anything
    fields = st.fixed_dictionaries({"x": st.just(1)} if odd != "x" else {}, optional={odd: values})
    batches = draw(st.lists(st.lists(fields, min_size=1, max_size=3), min_size=1, max_size=2))
    columns = draw(st.sampled_from(["", "p", "year,hour", "year,p", "~x", "~p,year"]))
    return Case("wild", [*batches, [{"v": 1}]], hive_columns=columns)


@thorough
@given(steady_cases())
def test_steady_records_become_the_same(case: Case) -> None:
    assert titles(findings_of(case, ArrowWriter())) - ALWAYS <= OF_STEADY_RECORDS


@thorough
@given(wild_cases())
def test_wild_records_differ_as_documented(case: Case) -> None:
    titles(findings_of(case, ArrowWriter()))
