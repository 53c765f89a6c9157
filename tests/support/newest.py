"""Which rows of a folder are the newest of their keys, by comparing each row with each other."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

ORDER = ("__partition", "__offset", "__timestamp")
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "device": pa.string(),
        "kind": pa.int64(),
        "op": pa.string(),
        "__partition": pa.int32(),
        "__offset": pa.int64(),
        "__timestamp": pa.timestamp("us", "UTC"),
    }
)


def random_rows(seed: int, count: int) -> pa.Table:
    """Rows of few keys and moments in two partitions, so that every two columns disagree somewhere."""
    chance = random.Random(seed)  # noqa: S311 - for tests
    rows = [
        {
            "n": number,
            "device": chance.choice(["a", "b", "c", None]),
            "kind": chance.choice([1, 2]),
            "op": chance.choice(["u", "d", None]),
            "__partition": chance.choice([0, 0, 1, None] if chance.random() < 0.2 else [0, 1]),
            "__offset": chance.choice([*range(20), None]),
            "__timestamp": chance.choice([*range(6), None]),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def newest(
    rows: Sequence[Mapping[str, Any]], key: Sequence[str], dropped: str | None = None
) -> list[Mapping[str, Any]]:
    """The rows that stay; ``dropped`` is the ``op`` of keys that go."""
    kept = [row for row in rows if not _is_superseded(row, rows, key)]
    if dropped is None:
        return kept
    return [
        row
        for row in kept
        if None in _of(row, (*key, *ORDER))
        or {dropped} != {each["op"] for each in kept if _of(each, key) == _of(row, key)}
    ]


def _of(row: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    return [row[name] for name in names]


def _is_superseded(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], key: Sequence[str]) -> bool:
    if None in _of(row, (*key, *ORDER)):
        return False
    same = [other for other in rows if _of(other, key) == _of(row, key) and None not in _of(other, ORDER)]
    latest = max(same, key=lambda other: (other["__timestamp"], other["__partition"]))
    return bool(
        row["__partition"] != latest["__partition"]
        or any(
            other["__partition"] == row["__partition"]
            and other["__offset"] > row["__offset"]
            and other["__timestamp"] >= row["__timestamp"]
            for other in same
        )
    )
