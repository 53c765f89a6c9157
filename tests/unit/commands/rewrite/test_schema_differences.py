"""Which types in a file keep readers from the table, and which do not."""

import pyarrow as pa
import pytest

from app.commands.rewrite.schema_differences import differences
from app.table.schema import TableSchema

TABLE = TableSchema(
    {
        "n": pa.int64(),
        "v": pa.float64(),
        "text": pa.string(),
        "bytes": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "price": pa.decimal128(38, 18),
        "s": pa.struct([("a", pa.float64()), ("deep", pa.struct([("b", pa.float64())]))]),
        "l": pa.list_(pa.float64()),
        "ls": pa.list_(pa.struct([("a", pa.float64())])),
    }
)


@pytest.mark.parametrize(
    ("column", "kind", "told"),
    [
        ("v", pa.int64(), "v bigint → double"),
        ("v", pa.int32(), "v int → double"),
        ("v", pa.float32(), "v float → double"),
        ("n", pa.int32(), "n int → bigint"),
        ("n", pa.uint64(), "n uint64 → bigint"),
        ("n", pa.string(), "n string → bigint"),
        ("text", pa.null(), "text null → string"),
        ("price", pa.decimal128(10, 2), "price decimal(10,2) → decimal(38,18)"),
        ("at", pa.timestamp("ns", "UTC"), "at timestamp[ns, tz=UTC] → timestamp"),
        ("at", pa.timestamp("us"), "at timestamp_ntz → timestamp"),
        ("s", pa.struct([("a", pa.int64())]), "s.a bigint → double"),
        ("s", pa.struct([("deep", pa.struct([("b", pa.int64())]))]), "s.deep.b bigint → double"),
        ("s", pa.string(), "s string → struct<a:double,deep:struct<b:double>>"),
        ("l", pa.list_(pa.int64()), "l[] bigint → double"),
        ("ls", pa.list_(pa.struct([("a", pa.int64())])), "ls[].a bigint → double"),
    ],
)
def test_another_type_is_told_by_its_path(column: str, kind: pa.DataType, told: str) -> None:
    [found] = differences(pa.schema([("n", pa.int64()), (column, kind)] if column != "n" else [("n", kind)]), TABLE)
    assert str(found) == told
    assert found.column == column


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("other", pa.int32()),
        ("text", pa.large_string()),
        ("text", pa.dictionary(pa.int32(), pa.string())),
        ("bytes", pa.large_binary()),
        ("bytes", pa.binary(16)),
        ("day", pa.date64()),
        ("at", pa.timestamp("ms", "Europe/Berlin")),
        ("local", pa.timestamp("s")),
        ("s", pa.struct([("a", pa.float64())])),
        ("s", pa.struct([("new", pa.int32())])),
        ("l", pa.large_list(pa.float64())),
        ("l", pa.list_(pa.field("element", pa.float64()))),
    ],
)
def test_what_readers_take_for_the_same_is_no_difference(column: str, kind: pa.DataType) -> None:
    assert differences(pa.schema([(column, kind)]), TABLE) == []


def test_the_table_s_own_types_and_columns_that_are_missing_are_no_difference() -> None:
    assert differences(pa.schema(list(TABLE.columns.items())), TABLE) == []
    assert differences(pa.schema([]), TABLE) == []
