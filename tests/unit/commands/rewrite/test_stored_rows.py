"""Files brought to the table's schema: types where they differ, nothing else, and no value lost."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.commands.rewrite.stored_rows import CoercedRows, NotPossibleError, coerce_stored, same_rows
from app.table.schema import TableSchema

BIG = 2**53 + 1  # no double is equal to it


def refitted(
    folder: Path, columns: dict[str, Any], table: dict[str, pa.DataType], *, fixed: frozenset[str] = frozenset()
) -> tuple[pa.Table, CoercedRows]:
    source, out = folder / "source.parquet", folder / "out.parquet"
    pq.write_table(pa.table(columns), source, row_group_size=3)
    result = coerce_stored(source, out, TableSchema(table), fixed)
    return pq.read_table(out).select(list(result.columns)), result


def test_only_columns_that_differ_change_and_rows_keep_their_order(tmp_path: Path) -> None:
    columns = {
        "n": pa.array([3, 1, 2, None, 5]),
        "v": pa.array([1, -2, None, 0, 2**60]),
        "small": pa.array([1, 2, 3, 4, 5], pa.int64()),
        "text": pa.array(["a", None, "", "ü", "e"]),
    }
    found, result = refitted(tmp_path, columns, {"v": pa.float64(), "n": pa.int64()})

    assert found["v"].to_pylist() == [1.0, -2.0, None, 0.0, float(2**60)]
    assert found.schema.field("v").type == pa.float64()
    assert result == CoercedRows(("n", "v", "small", "text"), 0)
    assert found.drop_columns(["v"]).equals(pa.table(columns).drop_columns(["v"]))


def test_fields_and_elements_change_inside_their_columns(tmp_path: Path) -> None:
    s = [{"a": 1, "b": {"c": 2, "d": "x"}}, None, {"a": None, "b": None}, {"a": 7, "b": {"c": None, "d": "y"}}]
    found, _ = refitted(
        tmp_path,
        {"s": pa.array(s), "l": pa.array([[1, None], [], None, [3]])},
        {
            "s": pa.struct(
                [("a", pa.float64()), ("b", pa.struct([("d", pa.string()), ("c", pa.float64())])), ("e", pa.string())]
            ),
            "l": pa.list_(pa.float64()),
        },
    )
    assert found["s"].to_pylist() == [
        {"a": 1.0, "b": {"d": "x", "c": 2.0}, "e": None},
        None,
        None,  # an object without any value is null, as in new records
        {"a": 7.0, "b": {"d": "y", "c": None}, "e": None},
    ]
    assert found["l"].to_pylist() == [[1.0, None], [], None, [3.0]]


def test_what_a_double_cannot_hold_is_rescued_beside_what_was_before(tmp_path: Path) -> None:
    found, result = refitted(
        tmp_path,
        {
            "v": pa.array([BIG, 1, 2**63 - 1, BIG]),
            "s": pa.array([{"a": 1, "b": "x"}, {"a": BIG, "b": "y"}, {"a": None, "b": "z"}, {"a": BIG, "b": None}]),
            "l": pa.array([[1], [2], [1, BIG], [3]]),
            "_rescued_data": pa.array([None, '{"v":"warm","s":{"b":7}}', None, '{"x":1e300}']),
        },
        {
            "v": pa.float64(),
            "s": pa.struct([("a", pa.float64()), ("b", pa.string())]),
            "l": pa.list_(pa.float64()),
            "_rescued_data": pa.string(),
        },
    )
    assert found["v"].to_pylist() == [None, 1.0, None, None]
    assert found["s"].to_pylist()[1:] == [{"a": None, "b": "y"}, {"a": None, "b": "z"}, None]
    assert found["l"].to_pylist() == [[1.0], [2.0], None, [3.0]]
    rescued = [text and json.loads(text) for text in found["_rescued_data"].to_pylist()]
    assert rescued == [
        {"v": BIG},
        {"v": "warm", "s": {"b": 7, "a": BIG}},
        {"v": 2**63 - 1, "l": [1, BIG]},
        {"x": 1e300, "v": BIG, "s": {"a": BIG}},
    ]
    assert result.rescued == 6


def test_a_column_for_rescued_values_comes_only_with_such_a_value(tmp_path: Path) -> None:
    _, result = refitted(tmp_path, {"v": pa.array([1])}, {"v": pa.float64()})
    assert result == CoercedRows(("v",), 0)

    _, result = refitted(tmp_path, {"v": pa.array([BIG])}, {"v": pa.float64()})
    assert result == CoercedRows(("v", "_rescued_data"), 1)


@pytest.mark.parametrize(
    ("array", "kind", "expected", "rescued"),
    [
        (pa.array([1, None], pa.int32()), pa.int64(), [1, None], 0),
        (pa.array([0.5, None], pa.float32()), pa.float64(), [0.5, None], 0),
        (pa.array([1, 2**64 - 1], pa.uint64()), pa.int64(), [1, None], 1),
        (pa.array(["1", None]), pa.int64(), [None, None], 1),
        (pa.nulls(2), pa.string(), [None, None], 0),
        (
            pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            pa.decimal128(38, 18),
            [Decimal("1.500000000000000000"), None],
            0,
        ),
        (
            pa.array([1_000, 1_001], pa.timestamp("ns", "UTC")),
            pa.timestamp("us", "UTC"),
            [datetime(1970, 1, 1, 0, 0, 0, 1, UTC), None],
            1,
        ),
        (pa.array([[1], None], pa.large_list(pa.int64())), pa.list_(pa.float64()), [[1.0], None], 0),
    ],
)
def test_types_of_other_tools_become_the_table_s(
    tmp_path: Path, array: pa.Array, kind: pa.DataType, expected: list[Any], rescued: int
) -> None:
    found, result = refitted(tmp_path, {"x": array}, {"x": kind})
    assert found["x"].to_pylist() == expected
    assert found.schema.field("x").type == kind
    assert result.rescued == rescued


def test_a_column_that_the_user_fixed_takes_what_it_takes_from_records(tmp_path: Path) -> None:
    columns = {"at": pa.array(["2024-01-02T03:04:05Z", "soon"])}
    found, result = refitted(tmp_path, columns, {"at": pa.timestamp("us", "UTC")}, fixed=frozenset({"at"}))
    assert found["at"].to_pylist() == [datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), None]
    assert result.rescued == 1


def test_a_column_that_has_neither_type_nor_values_is_left_out(tmp_path: Path) -> None:
    found, _ = refitted(tmp_path, {"void": pa.nulls(1), "v": pa.array([1])}, {"v": pa.float64()})
    assert found.column_names == ["v"]


def test_forms_that_only_arrow_knows_are_read_as_what_they_are(tmp_path: Path) -> None:
    columns = {
        "d": pa.array(["a", "b", "a"]).dictionary_encode(),
        "t": pa.array([1, None, 3], pa.timestamp("ms")),
        "v": pa.array([1, 2, 3]),
    }
    found, _ = refitted(tmp_path, columns, {"v": pa.float64()})
    assert found["d"].to_pylist() == ["a", "b", "a"]
    assert found.schema.field("t").type == pa.timestamp("us")


@pytest.mark.parametrize(
    ("columns", "table", "reason"),
    [
        ({"t": pa.array([1], pa.time64("us")), "v": pa.array([1])}, {"v": pa.float64()}, "'t' has the type time64"),
        ({"_rescued_data": pa.array(["[1]"]), "v": pa.array([BIG])}, {"v": pa.float64()}, "is no JSON object"),
        ({"_rescued_data": pa.array(["no"]), "v": pa.array([BIG])}, {"v": pa.float64()}, "Expecting value"),
        ({"_rescued_data": pa.array([1]), "v": pa.array([1])}, {"v": pa.float64()}, "is not text"),
    ],
)
def test_what_cannot_be_written_is_told(
    tmp_path: Path, columns: dict[str, Any], table: dict[str, pa.DataType], reason: str
) -> None:
    with pytest.raises(NotPossibleError, match=reason):
        refitted(tmp_path, columns, table)


def test_two_columns_of_one_name_are_told(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["v", "v"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(NotPossibleError, match="two columns of one name"):
        coerce_stored(tmp_path / "twice.parquet", tmp_path / "out", TableSchema({"v": pa.float64()}), frozenset())


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**54), 2**54)), max_size=30))
def test_each_integer_is_in_the_column_or_rescued(tmp_path_factory: pytest.TempPathFactory, numbers: list[Any]) -> None:
    found, _ = refitted(tmp_path_factory.mktemp("file"), {"v": pa.array(numbers, pa.int64())}, {"v": pa.float64()})

    rows = found.to_pylist()
    kept = [
        int(row["v"]) if row["v"] is not None else json.loads(row.get("_rescued_data") or "{}").get("v") for row in rows
    ]
    assert kept == numbers
    assert all(row["v"] is None or not row.get("_rescued_data") for row in rows)


def test_rows_of_many_stretches_stay_in_order(tmp_path: Path) -> None:
    rows = 200_000
    pq.write_table(pa.table({"v": pa.arange(0, rows)}), tmp_path / "a.parquet", row_group_size=7_001)
    coerce_stored(tmp_path / "a.parquet", tmp_path / "b.parquet", TableSchema({"v": pa.float64()}), frozenset())
    assert pq.read_table(tmp_path / "b.parquet")["v"].cast(pa.int64()).to_pylist() == list(range(rows))


class TestSameRows:
    NAN = pa.table({"a.b": [1.0, float("nan"), None], "a": pa.array([{"b": float("nan")}, None, {"b": 2.0}])})

    def compare(self, folder: Path, one: pa.Table, other: pa.Table) -> bool:
        pq.write_table(one, folder / "one.parquet", row_group_size=1)
        pq.write_table(other, folder / "other.parquet", row_group_size=2)
        return same_rows(folder / "one.parquet", folder / "other.parquet", one.column_names)

    def test_equal_rows_are_the_same_however_they_are_grouped(self, tmp_path: Path) -> None:
        assert self.compare(tmp_path, self.NAN, self.NAN)

    @pytest.mark.parametrize(
        "other",
        [
            NAN.slice(1),
            NAN.take([0, 2, 1]),
            NAN.select(["a", "a.b"]),
            NAN.drop_columns(["a"]),
            NAN.set_column(0, "a.b", pa.array([1, 2, 3])),
            NAN.set_column(0, "a.b", pa.array([1.0, 2.0, None])),
        ],
    )
    def test_other_rows_are_not(self, tmp_path: Path, other: pa.Table) -> None:
        assert not self.compare(tmp_path, self.NAN, other)
