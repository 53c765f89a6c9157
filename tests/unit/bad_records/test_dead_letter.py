"""The dead letter: what a reader finds in it, and that every record fits in."""

import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bad_records import dead_letter
from app.errors import DataError
from app.model import Rejected, TopicPartition
from app.reason_texts import Reason
from app.table.layout import dead_letter_root

TP = TopicPartition("readings", 3)
NOW = datetime(2025, 3, 4, 5, 6, 7, 8000, tzinfo=UTC)


def rejected(**fields: Any) -> Rejected:
    given_fields: dict[str, Any] = {
        "tp": TP,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "key": b"k",
        "value": b"v",
        "headers": None,
        "reason": Reason("no JSON"),
    }
    return Rejected(**{**given_fields, **fields})


def test_the_folder_is_beside_the_table() -> None:
    assert dead_letter_root("lake/time/readings") == "lake/time/_dead_letter/readings"
    assert dead_letter_root("readings") == "_dead_letter/readings"


def test_duckdb_reads_everything(tmp_path: Path) -> None:
    path = tmp_path / "letter.parquet"
    records = [
        rejected(key=b"\xff\x00", value=b"{", headers=[("trace", b"\x01"), ("empty", None), ("trace", b"\x02")]),
        rejected(offset=8, key="Köln", value={"t": math.nan, "at": NOW, "raw": b"\x00"}, timestamp=None),
        rejected(offset=9, key=None, value=None, headers=[], reason=Reason("a null value")),
    ]
    dead_letter.write(records, path)
    with duckdb.connect() as connection:
        found = connection.execute(
            """SELECT topic, partition, "offset", epoch_ms(timestamp), key, key_json, value, value_json, headers,
            reason, rejected_at IS NOT NULL FROM read_parquet(?) ORDER BY "offset" """,
            [str(path)],
        ).fetchall()
    headers = [{"key": "trace", "value": b"\x01"}, {"key": "empty", "value": None}, {"key": "trace", "value": b"\x02"}]
    value = '{"t":"NaN","at":"2025-03-04T05:06:07.008000+00:00","raw":"AA=="}'
    assert found == [
        ("readings", 3, 7, 1_700_000_000_123, b"\xff\x00", None, b"{", None, headers, "no JSON", True),
        ("readings", 3, 8, None, "Köln".encode(), None, None, value, None, "no JSON", True),
        ("readings", 3, 9, 1_700_000_000_123, None, None, None, None, [], "a null value", True),
    ]


def test_the_columns_have_their_types_and_the_file_is_compressed(tmp_path: Path) -> None:
    dead_letter.write([rejected()], tmp_path / "letter.parquet")
    with pq.ParquetFile(tmp_path / "letter.parquet") as file:
        assert file.schema_arrow.equals(dead_letter.SCHEMA)
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_all_records_of_a_table_are_rejected_at_the_same_time() -> None:
    table = dead_letter.to_table([rejected(), rejected()], clock=lambda: NOW)
    assert table.column("rejected_at").to_pylist() == [NOW, NOW]
    assert dead_letter.to_table([]).schema.equals(dead_letter.SCHEMA)


def test_text_that_is_no_utf8_is_kept_readable(tmp_path: Path) -> None:
    path = tmp_path / "letter.parquet"
    headers = [("h\udfff", b"\xff"), ("text", "ü")]
    dead_letter.write([rejected(key="\ud800", value={"\ud800": 1}, headers=headers, reason=Reason("odd \ud800"))], path)
    [letter] = dead_letter.read(path)
    assert letter.record == rejected(
        key="\ud800".encode("utf-8", "surrogatepass"),
        value=b'{"\\ud800":1}',
        headers=[("h\\udfff", b"\xff"), ("text", "ü".encode())],
        reason="odd \\ud800",
    )


ANYTHING = st.none() | st.binary() | st.text(st.characters()) | st.integers() | st.floats() | st.datetimes()


@given(key=ANYTHING, value=ANYTHING | st.dictionaries(ANYTHING, ANYTHING) | st.lists(ANYTHING))
def test_every_record_fits_in(key: Any, value: Any) -> None:
    table = dead_letter.to_table([rejected(key=key, value=value)])
    for name, given_value in (("key", key), ("value", value)):
        [raw], [json_text] = table.column(name).to_pylist(), table.column(f"{name}_json").to_pylist()
        assert [raw, json_text].count(None) == (2 if given_value is None else 1)
        if isinstance(given_value, bytes):
            assert raw == given_value


def test_reading_gives_the_records_back_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "letter.parquet"
    records = [
        *(rejected(offset=offset, headers=[("a", None)]) for offset in range(3_000)),
        *(rejected(headers=[], timestamp=timestamp) for timestamp in (-(2**63), -1, 0, 2**63 - 1)),
        *(rejected(headers=[], value_size=size) for size in (400_000_000, -1)),
    ]
    dead_letter.write(records, path)
    found = [letter.record for letter in dead_letter.read(path)]
    assert found == records
    assert [record.is_truncated for record in found[-3:]] == [False, True, True]


def test_another_file_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    pq.write_table(dead_letter.to_table([rejected()]).drop(["truncated"]), tmp_path / "lacks.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for name, cause in (
        ("other", "it has the columns a. Move"),
        ("lacks", "it has the columns topic, "),
        ("broken", ""),
    ):
        with pytest.raises(DataError, match=re.escape(f"reading {name}.parquet of the dead letter: {cause}")):
            list(dead_letter.read(tmp_path / f"{name}.parquet"))


def of_type(name: str, value: object) -> pa.Array:
    return pa.array([value], dead_letter.SCHEMA.field(name).type)


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        *((name, of_type(name, None), name) for name in ("topic", "partition", "offset", "reason", "rejected_at")),
        ("offset", pa.array(["x"]), ""),
        ("rejected_at", of_type("rejected_at", 2**62), ""),  # beyond all calendars
    ],
)
def test_a_file_that_lacks_a_value_or_has_one_of_another_kind_is_named(
    tmp_path: Path, name: str, values: pa.Array, told: str
) -> None:
    letters = dead_letter.to_table([rejected()])
    path = tmp_path / "odd.parquet"
    pq.write_table(letters.set_column(letters.column_names.index(name), name, values), path)
    with pytest.raises(DataError, match=rf"reading odd\.parquet of the dead letter: .*{told}"):
        list(dead_letter.read(path))
