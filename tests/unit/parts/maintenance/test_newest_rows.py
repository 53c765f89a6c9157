"""The newest rows of keys in Arrow tables are those that a comparison of each row with each other finds."""

from typing import Any

import pyarrow as pa
import pytest

from app.parts.maintenance.newest_rows import newest_rows
from tests.support.newest import newest, random_rows


@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("key", [["device"], ["device", "kind"]])
def test_they_are_those_of_a_comparison(key: list[str], count: int) -> None:
    for seed in range(50):
        rows = random_rows(seed, count)
        assert rows.filter(newest_rows(rows, key)).to_pylist() == newest(rows.to_pylist(), key)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [True, False]),
        (pa.date32(), [1, 2]),
        (pa.timestamp("us", "UTC"), [1, 2]),
        (pa.binary(), [b"a", b"\0"]),
        (pa.large_string(), ["a", ""]),
        (pa.decimal128(10, 2), [1, 2]),
    ],
    ids=str,
)
def test_a_key_may_have_any_exact_type(kind: pa.DataType, values: list[Any]) -> None:
    order = {"__partition": ["0"] * 4, "__offset": range(4), "__timestamp": pa.array(range(4), pa.timestamp("us"))}
    assert newest_rows(pa.table({"key": pa.array(values * 2, kind), **order}), ["key"]).to_pylist() == [
        False,
        False,
        True,
        True,
    ]
