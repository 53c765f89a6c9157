"""Whether messages are converted many at once or one by one: the outcome is the same to the byte."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.convert.chunks import FEW
from app.convert.json_batch import WholeBatches
from app.table.layout import RESCUED_COLUMN
from tests.fakes.kafka_message import KafkaMessage
from tests.parity.case import Case, Record
from tests.parity.corpus import CORPUS
from tests.support.batches import NOON
from tests.support.both_ways import StagingStep, Table, assert_both_agree, messages

# --- the corpus of all kinds of records -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_the_corpus(case: Case) -> None:
    table = Table(case.order, case.timestamp_column)
    batches = [[_message(record) for record in batch] for batch in case.numbered]
    assert_both_agree(table, batches)
    assert_both_agree(table, [batch * 5 for batch in batches], few=2)


def _message(record: Record) -> KafkaMessage:
    key = None if record.key is None else _bytes(record.key)
    # What JSON has no form for, such as dates and NaN, is text here, or no JSON at all.
    value = None if record.value is None else json.dumps(record.value, default=str).encode()
    return KafkaMessage(value, key, record.number, record.partition, timestamp_ms=record.timestamp)


def _bytes(key: Any) -> bytes:
    return key if isinstance(key, bytes) else str(key).encode()


# --- what is easily got wrong ---------------------------------------------------------------------------------------

ODD_BATCHES = {
    "the first value decides, whoever looks at it": ["{'n':1}", '{"x":"text"}', '{"x":1}', '{"x":"more"}'],
    "columns come in the order of the records": ['{"a":1}', "x", '{"b":1}', '{"c":1}', "x", '{"d":1,"b":2}'],
    "long whole numbers before a fraction": ['{"x":9007199254740993}', '{"x":[]}', '{"x":2}', '{"x":1.5}', '{"x":3}'],
    "an object that grows": ['{"o":{"a":1}}', '{"o":{"a":2}}', '{"o":{"b":[1]}}', '{"o":{"b":[]}}', '{"o":{}}'],
    "whole numbers, then fractions": ['{"x":1}', '{"x":2}', '{"x":1.5}', '{"x":2.0}', '{"x":-0.0}', '{"x":-0}'],
    "lists before their elements": ['{"l":[]}', '{"l":[null]}', '{"l":[1]}', '{"l":[]}', '{"l":[1.5]}'],
    "records without a value": ['{"ts_ms":null}', "{}", '{"ts_ms":null,"a":null}', '{"ts_ms":null}'],
    "a record without a value beside others": ['{"a":1}', '{"ts_ms":null}', '{"ts_ms":null}', '{"b":1}'],
    "partition values of every kind": ['{"p":1}', '{"p":"1"}', '{"p":1.0}', '{"p":true}', '{"p":null}', '{"p":[1]}'],
    "names in another case": ['{"a":1}', '{"A":1}', '{"a":2,"A":null}', '{"A":"x","a":1}'],
    "fields of our names": ['{"__key":"k","__offset":7}', '{"_rescued_data":1,"year":1}', '{"__key":null}'],
    "times of every kind": [
        '{"ts_ms":1}',
        '{"ts_ms":"2024-01-15"}',
        '{"ts_ms":1.5}',
        '{"ts_ms":true}',
        "{}",
        '{"a":1}',
    ],
    "objects as times": ['{"ts_ms":{"a":1}}', '{"x":1}', '{"ts_ms":[]}', '{"x":2}', '{"ts_ms":{}}', '{"ts_ms":true}'],
    "more levels than there are": ['{"a":1}', '{"x":' * 33 + "{}" + "}" * 33, '{"a":' * 40 + "1" + "}" * 40],
    "an escaped name": ['{"ts_ms":5}', '{"ts\\u005fms":6}', '{"s":"\\u00fc\\n"}', '{"s":"plain"}'],
}


@pytest.mark.parametrize("name", ODD_BATCHES)
@pytest.mark.parametrize("hive", [(), ("p",), ("year", "hour"), ("__key", "ts_ms"), ("~p", "year")], ids=",".join)
@pytest.mark.parametrize("few", [1, 2, 256])
def test_odd_batches(name: str, hive: tuple[str, ...], few: int) -> None:
    batch = messages(*(text.encode() for text in ODD_BATCHES[name]), raw_key=b"k")
    table = Table(hive, metadata=("__offset", "__headers"))
    assert_both_agree(table, [batch, batch[::-1], batch * 2], few=few)


@pytest.mark.parametrize("values", [[b'{"a":1}', b'{"ts_ms":null}', b'{"a":2}'], [b'{"ts_ms":null}', b'{"a":{}}']])
def test_records_without_a_value_and_a_key(values: list[bytes]) -> None:
    assert_both_agree(Table(), [messages(*values, timestamp_ms=-1), messages(b'{"a":3}')], few=1)


def test_a_partition_column_that_the_schema_has_too_is_in_no_file() -> None:
    batch = messages(b'{"p":"a","x":1}', b'{"p":"b","x":2}')
    assert_both_agree(Table(("p",)), [batch, batch], {"p": pa.string(), "x": pa.int64(), "ts_ms": pa.int64()})
    assert_both_agree(Table(("ts_ms",), types="ts_ms:string"), [batch, batch])


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.binary(), pa.decimal128(10, 2), pa.int32()])
def test_columns_of_types_that_json_has_not(kind: pa.DataType) -> None:
    values = ['"2024-01-15"', '"2024-01-15T12:00:00"', "1", "1.5", "2147483648", '"x"', "null", "[]", "{}", "true"]
    texts = [f'{{"x":{value},"y":1}}'.encode() for value in values]
    for some in (texts, *([text] for text in texts)):
        assert_both_agree(Table(), [messages(*some)] * 2, {"x": kind, "y": pa.int64()})


@pytest.mark.parametrize("at_once", [True, False])
def test_the_column_of_rescued_values_has_its_place_where_the_first_is(at_once: bool, tmp_path: Path) -> None:
    step = StagingStep(Table(), at_once=at_once, few=1)
    step.stage(messages(b'{"a":1}', b'{"a":"text","b":1}', b'{"c":1}'), tmp_path / "staged.parquet")
    assert list(step.schema.current.columns) == ["a", "ts_ms", "b", RESCUED_COLUMN, "c"]


# --- which way is taken ---------------------------------------------------------------------------------------------

ORDINARY = Table(("year", "hour", "place"), metadata=("__offset",))


def ordinary(count: int, **more: Any) -> list[bytes]:
    return [
        json.dumps({"ts_ms": NOON + number * 1_000, "place": f"p{number % 3}", "x": 1.5, "n": number} | more).encode()
        for number in range(count)
    ]


def reads(step: StagingStep, values: list[bytes], path: Path) -> int:
    """How many of these messages are read one by one; they are staged, keys and all."""
    before = step.reader.reads
    staged = step.stage(messages(*values, raw_key=b"k"), path)
    rows = 0 if staged.file is None else pq.read_metadata(staged.file.path).num_rows
    assert rows + sum(len(records) for _, records in staged.rejected) == len(values)
    return step.reader.reads - before


@pytest.fixture
def step() -> StagingStep:
    return StagingStep(ORDINARY, at_once=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "staged.parquet"


def test_of_a_new_table_a_few_are_read_one_by_one_and_then_none(step: StagingStep, path: Path) -> None:
    assert reads(step, ordinary(5_000), path) <= FEW
    assert reads(step, ordinary(5_000), path) == 0
    assert reads(step, ordinary(1), path) == 0


@pytest.mark.parametrize("place", [0, 17_000, 49_999])
def test_one_bad_record_among_very_many(step: StagingStep, path: Path, place: int) -> None:
    values = ordinary(50_000)
    reads(step, values[:10], path)
    values[place] = b'{"x":'
    assert reads(step, values, path) <= 3 * FEW


@pytest.mark.parametrize("place", [0, 9_000, 19_999])
def test_a_new_column(step: StagingStep, path: Path, place: int) -> None:
    values = ordinary(20_000)
    reads(step, values[:10], path)
    values[place:] = ordinary(20_000, fresh={"a": [1]})[place:]
    assert reads(step, values, path) <= 3 * FEW


def test_a_column_that_becomes_double(step: StagingStep, path: Path) -> None:
    values = ordinary(20_000)
    reads(step, values[:10], path)
    values[9_000:] = ordinary(20_000, n=0.5)[9_000:]
    assert reads(step, values, path) <= 3 * FEW
    assert step.schema.current.columns["n"] == pa.float64()


@pytest.mark.parametrize("place", ["text", 7, True, None])
def test_partition_columns_of_any_one_type(step: StagingStep, path: Path, place: Any) -> None:
    reads(step, ordinary(1_000, place=place), path)
    assert reads(step, ordinary(1_000, place=place), path) == 0


def test_messages_without_the_timestamp_column_whatever_is_escaped_in_them(step: StagingStep, path: Path) -> None:
    values = [json.dumps({"x": 1.5, "place": "Zürich\n"}).encode()] * 1_000
    assert b"\\u00fc" in values[0]
    reads(step, values, path)
    assert reads(step, values, path) == 0


def test_where_all_are_odd_little_is_tried_in_vain(step: StagingStep, path: Path) -> None:
    values = ordinary(10_000, place=1.5)
    reads(step, values, path)
    with patch.object(WholeBatches, "convert", autospec=True, side_effect=WholeBatches.convert) as tried:
        assert reads(step, values, path) == 10_000
    assert sum(len(call.args[1]) for call in tried.call_args_list) < 2 * 10_000


# --- whatever comes -------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["a", "b", "A", "p", "q", "s", "ts_ms", "t", "year", "hour", "__key", "__offset", "_rescued_data", "", "ü", ".x"]
)
NUMBERS = st.sampled_from(
    ["0", "-0", "1", "-1", "7", "0.0", "-0.0", "1.0", "1.5", "-2.5", "1e2", "1E-3", "1e-400", "1e400", "NaN",
     "Infinity", "-Infinity", "01", "1.", ".5", "+1", "-", "1e", str(2**53), str(2**53 + 1), f"-{2**53 + 1}",
     str(2**63), "9" * 40, str(2**63 - 1), str(-(2**63)), str(2**64), str(NOON), str(NOON * 1000), str(NOON * 10**6),
     f"{NOON}.5", "1" + "0" * 20, str(2**64 + 1), str(-(2**63) - 1), f"-{2**70}", "9" * 400, "1e20", f"{2**64}.0",
     "0.1234567890123456789", "0." + "0" * 30 + "1"]
)  # fmt: skip
TEXTS = st.sampled_from(
    [
        "",
        "x",
        "y",
        "1",
        "true",
        "2024-01-15",
        "2024-01-15T12:00:00Z",
        "2024-01-15t12:00:00z",
        "2024-01-15T12:00:00.123456789",
        "2024-01-15 12:00:00+02:00",
        "soon",
        "a/b=c",
        "ü😀",
        "\x00",
        'quo"te\\',
        "{}[]",
        "l" * 300,
        "__HIVE_DEFAULT_PARTITION__",
    ]
).map(json.dumps)
ODD = st.sampled_from(
    [
        "",
        "{",
        "}",
        "[",
        '"',
        "tru",
        "null",
        '"\\ud800"',
        '"\\u12"',
        '"\t"',
        '"\x01"',
        "{}{}",
        "1 2",
        "1,",
        "\x00",
        "/**/",
    ]
)
SCALARS = st.one_of(st.sampled_from(["null", "true", "false", "{}", "[]"]), NUMBERS, TEXTS)


def _object(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    # A list of pairs: a name may come twice.
    pairs = st.lists(st.tuples(NAMES, values), max_size=4)
    return pairs.map(lambda fields: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields) + "}")


VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(_object(inner), st.lists(inner, max_size=3).map(lambda e: f"[{','.join(e)}]"))
)
PLAIN = st.fixed_dictionaries(
    {"a": st.sampled_from([0, 1, 2, 2**53 + 1]), "s": st.sampled_from(["x", "y"])},
    optional={
        "ts_ms": st.sampled_from([NOON, NOON + 3_600_000, None]),
        "b": st.sampled_from([1.5, 2.0, 3, None]),
        "p": st.sampled_from(["u", "v", "w"]),
        "n": st.sampled_from([{"x": 1}, {"x": 2, "y": ["z"]}, {}, None]),
        "l": st.sampled_from([[1], [], [1, None], None]),
    },
).map(json.dumps)
RECORDS = st.one_of(
    PLAIN,
    PLAIN,
    PLAIN,
    _object(SCALARS),
    _object(VALUES),
    st.one_of(VALUES, ODD),
    st.tuples(_object(SCALARS), ODD).map("".join),
    st.tuples(st.sampled_from([" ", "\n", "\ufeff", "\r"]), PLAIN).map("".join),
).map(str.encode)
RAW = st.one_of(
    RECORDS, RECORDS, RECORDS, RECORDS, RECORDS, RECORDS, RECORDS,
    st.sampled_from([None, b"", b"\xff", b'{"s":"\xff"}', b'{"s":"\xed\xa0\x80"}', b'{"s":"' + b"x" * 3_000 + b'"}']),
)  # fmt: skip
MESSAGES = st.builds(
    KafkaMessage,
    raw_value=RAW,
    raw_key=st.sampled_from([b"k", b"k2", b"", None, b"\xff", b"l" * 300]),
    timestamp_ms=st.sampled_from([NOON, NOON, NOON + 86_400_000, -1, 0]),
    raw_headers=st.sampled_from([None, [], [("h", b"\xff")], [("h", b"1"), ("h", None)]]),
)
SAME_KIND = st.builds(KafkaMessage, raw_value=PLAIN.map(str.encode), raw_key=st.sampled_from([b"k", None]))
TABLES = st.builds(
    Table,
    hive=st.lists(
        st.sampled_from(["year", "month", "day", "hour", "p", "a", "b", "s", "ts_ms", "__key", "~s", "~year", "~a"]),
        max_size=3,
        unique_by=lambda name: name.removeprefix("~"),
    ).map(tuple),
    timestamp=st.sampled_from(["ts_ms", "ts_ms", "ts_ms", "a", "s", "t", "year"]),
    types=st.sampled_from(
        ["", "", "", "ts_ms:bigint", "ts_ms:timestamp", "ts_ms:string", "a:double", "a:string", "b:int", "a:timestamp",
         "a:date,b:decimal(10,2)", "b:decimal(38,18)", "a:struct<x:bigint>,b:array<double>", "s:binary", "ts_ms:double"]
    ),
    metadata=st.sampled_from(
        [(), (), ("__offset", "__partition"), ("__topic", "__timestamp", "__headers"), ("__headers",)]
    ),
)  # fmt: skip


def _batches(some: st.SearchStrategy[KafkaMessage]) -> st.SearchStrategy[list[list[KafkaMessage]]]:
    return st.lists(st.lists(st.tuples(some, st.integers(0, 2)), min_size=1, max_size=12), min_size=1, max_size=3).map(
        _numbered
    )


def _numbered(batches: list[list[tuple[KafkaMessage, int]]]) -> list[list[KafkaMessage]]:
    offsets = iter(range(10**6))
    return [
        [
            KafkaMessage(
                one.raw_value,
                one.raw_key,
                next(offsets),
                partition,
                timestamp_ms=one.timestamp_ms,
                raw_headers=one.raw_headers,
            )
            for one, partition in batch
        ]
        for batch in batches
    ]


@given(TABLES, _batches(MESSAGES), st.integers(1, 3))
def test_whatever_comes(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    assert_both_agree(table, batches, few=few)


@given(TABLES, _batches(SAME_KIND), st.integers(1, 3))
def test_records_of_mostly_one_kind(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    assert_both_agree(table, batches, few=few)
