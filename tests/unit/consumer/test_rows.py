"""What a buffered row is said to weigh, against what it does weigh."""

import json
import tracemalloc
from typing import Any

import pytest

from app.consumer.rows import RowSizer
from app.model import deep_size

SMALL = {"id": 1, "place": "NYC", "value": 1.5}
NESTED = {"id": "sensor-1", "readings": [{"at": 1_705_320_000_000 + i, "v": i / 7} for i in range(50)]}


def estimate(value: dict[str, Any], rows: int) -> float:
    sizer = RowSizer()
    size = len(json.dumps(value))
    return sum(sizer.size(value, size) for _ in range(rows)) / rows


def memory_of_rows(value: dict[str, Any], rows: int) -> float:
    """Bytes that Python takes for one row once decoded, measured over many."""
    message = json.dumps(value)
    tracemalloc.start()
    try:
        kept = [(json.loads(message), None, 1_705_320_000_000 + i, 10_000 + i) for i in range(rows)]
        return tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [SMALL, NESTED, {}, {"text": "x" * 10_000}, {"flags": [True, None] * 20}])
def test_the_estimate_is_near_the_memory_that_rows_take_and_hardly_below(value: dict[str, Any]) -> None:
    assert 0.8 <= estimate(value, 500) / memory_of_rows(value, 500) <= 3


def test_larger_messages_weigh_more_between_two_measurements() -> None:
    sizer = RowSizer()
    for _ in range(200):
        sizer.size({"x": "y" * 100}, 100)
    assert sizer.size({"x": "y" * 10_000}, 10_000) > 20 * sizer.size({"x": "y" * 100}, 100)


def test_the_estimate_follows_when_records_change() -> None:
    sizer = RowSizer()
    flat = {"x": "y" * 1_000}
    nested: dict[str, Any] = {"x": [[] for _ in range(500)]}  # 1,000 bytes of JSON, much more in Python
    for _ in range(1_000):
        sizer.size(flat, 1_000)
    sizes = [sizer.size(nested, 1_000) for _ in range(2_000)]
    assert sizes[-1] > 0.9 * deep_size(nested)


def test_a_message_of_no_bytes_has_a_size() -> None:
    assert RowSizer().size({}, 0) > 0


def test_what_is_nested_counts_in_full() -> None:
    assert deep_size({"a": ["x" * 1_000, {"b": ("y" * 1_000,)}]}) > 2_000
