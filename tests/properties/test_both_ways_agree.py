"""Whether messages are converted many at once or one by one: the outcome is the same to the byte."""

import json
import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.convert.chunks import FEW
from app.convert.whole_batches import WholeBatches
from app.model import Batch, Row
from app.table.field_rules import FieldRules
from app.table.layout import HIVE_NULL, RESCUED_COLUMN
from tests.fakes.kafka_message import KafkaMessage
from tests.support import odd_json
from tests.support.batches import NOON, part
from tests.support.both_ways import NO_RULES, StagingStep, Table, assert_both_agree, messages

# --- what is easily got wrong ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("metadata", [(), ("__topic", "__partition", "__offset")])
@pytest.mark.parametrize("at_once", [True, False])
def test_metadata_are_partition_columns_whether_or_not_they_are_to_be_columns(
    at_once: bool, metadata: tuple[str, ...], tmp_path: Path
) -> None:
    step = StagingStep(Table(("__topic", "__partition", "__key"), metadata=metadata), at_once=at_once)
    some = messages(b'{"x":1}', b'{"x":2,"__partition":"1"}', raw_key=b"k", of_partition=1)
    some += messages(*[b'{"x":3}'] * 1_000, first=9, of_partition=2)
    for _ in range(2):
        file = step.stage(some, tmp_path / "staged.parquet").file
        assert file is not None
        assert [(dict(group.partition_values), group.rows) for group in file.groups] == [
            ({"__topic": "sensors", "__partition": "1", "__key": "k"}, 2),
            ({"__topic": "sensors", "__partition": "2", "__key": HIVE_NULL}, 1_000),
        ]
        table = pq.read_table(file.path)
        assert {*table.column_names} - {file.group_column} == {"x", "ts_ms", RESCUED_COLUMN, *metadata[2:]}
        assert [*filter(None, table[RESCUED_COLUMN].to_pylist())] == ['{"__partition":"1"}']


@pytest.mark.parametrize("at_once", [True, False])
def test_metadata_are_columns_where_they_are_virtual_partitions(at_once: bool, tmp_path: Path) -> None:
    file = StagingStep(Table(("~__partition",)), at_once=at_once).stage(messages(b'{"x":1}'), tmp_path / "staged").file
    assert file is not None
    assert pq.read_table(file.path)["__partition"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("column", "records", "told"),
    [
        ("timestamp", [b'{"timeStamp":1}'], "TIMESTAMP_COLUMN: none of the first 2 rows of t has a value in timestamp.*"
         r"the Kafka timestamp.* Did you mean timeStamp\?"),
        ("meta.at", [b'{"meta":{"at":1}}'], r'Write sdf\["at"\] = .* and at in TIMESTAMP_COLUMN'),
        ("ts_ms", [b'{"n":1}'], "Check the name"),
        ("ts_ms", [b'{"n":1}', b'{"ts_ms":1}'], ""),
        ("ts_ms", [b'{"ts_ms":null,"n":1}'], ""),
        ("__timestamp", [b'{"n":1}'], ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("at_once", [True, False])
def test_a_timestamp_column_that_the_first_records_lack_is_told_once(
    at_once: bool, column: str, records: list[bytes], told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    step = StagingStep(Table(("p",), column), at_once=at_once, few=1)
    for _ in range(2):
        step.stage(messages(*records, *records), tmp_path / "staged.parquet")
    found = [message for message in caplog.messages if message.startswith("TIMESTAMP_COLUMN: ")]
    assert len(found) == bool(told)
    assert all(re.search(told, message) for message in found)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_field_inside_objects_may_become_a_partition_column_of_another_name(
    at_once: bool, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = FieldRules(renamed={"meta.region": "region", "other.x": "y"})
    step = StagingStep(Table(("region",), rules=rules), at_once=at_once, few=1)
    records = [b'{"ts_ms":1,"meta":{"region":"eu"}}', b'{"ts_ms":1,"region":"own","meta":{"region":"eu"}}']
    for _ in range(2):
        file = step.stage(messages(*records), path).file
        assert file
        assert [(group.partition_values["region"], group.rows) for group in file.groups] == [("eu", 1), ("own", 1)]
        assert pq.read_table(path)["meta"].to_pylist() == [{"region": "eu"}] * 2
    (told,) = caplog.messages
    assert told.startswith("RENAME_COLUMNS: none of the first 2 rows of t has a value in other.x")


# --- which way is taken ---------------------------------------------------------------------------------------------

ORDINARY = Table(("year", "__partition", "place"), metadata=("__offset",))


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
    assert rows + len(staged.rejected) == len(values)
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


@pytest.mark.parametrize("place", [0, pytest.param(17_000, marks=pytest.mark.night), 49_999])
def test_one_bad_record_among_very_many(step: StagingStep, path: Path, place: int) -> None:
    values = ordinary(50_000)
    reads(step, values[:10], path)
    values[place] = b'{"x":'
    assert reads(step, values, path) <= 3 * FEW


@pytest.mark.parametrize("place", [0, pytest.param(9_000, marks=pytest.mark.night), 19_999])
@pytest.mark.parametrize("later", [{"fresh": {"a": [1]}}, {"n": 0.5}], ids=["new", "becomes double"])
def test_a_new_column_or_one_that_becomes_double(
    step: StagingStep, path: Path, place: int, later: dict[str, Any]
) -> None:
    values = ordinary(20_000)
    reads(step, values[:10], path)
    values[place:] = ordinary(20_000, **later)[place:]
    assert reads(step, values, path) <= 3 * FEW
    assert step.schema.current.columns["n"] == (pa.float64() if "n" in later else pa.int64())


@pytest.mark.parametrize("table", [ORDINARY, Table(timestamp="__timestamp", metadata=("__timestamp",))])
def test_messages_without_the_timestamp_column_whatever_is_escaped_in_them(table: Table, path: Path) -> None:
    step = StagingStep(table, at_once=True)
    values = [json.dumps({"x": 1.5, "place": "Zürich\n"}).encode()] * 1_000
    assert b"\\u00fc" in values[0]
    reads(step, values, path)
    assert reads(step, values, path) == 0


def test_where_all_are_odd_little_is_tried_in_vain(step: StagingStep, path: Path) -> None:
    values = ordinary(10_000, place=1.5)
    reads(step, values, path)
    with patch.object(WholeBatches, "convert", autospec=True, side_effect=WholeBatches.convert) as tried:
        assert reads(step, values, path) == 10_000
    assert sum(len(call.args[1]) for call in tried.call_args_list) < 3 * 10_000


def test_fields_are_dropped_renamed_and_hashed_many_at_once(path: Path) -> None:
    rules = FieldRules(["blob"], {"at": "ts_ms", "where": "place"}, ["user", "number"], "salt")
    step = StagingStep(replace(ORDINARY, rules=rules), at_once=True)
    record = {"at": NOON, "where": "here", "user": "Ann", "number": 7, "blob": {"x": [1]}}
    values = [json.dumps(record | {"n": n}).encode() for n in range(5_000)]
    assert reads(step, values, path) <= FEW
    assert reads(step, values, path) == 0
    table = pq.read_table(path, columns=["ts_ms", "user", "number", "n"])
    assert table.column("user").unique().to_pylist() == [sha256(b"saltAnn").hexdigest()]
    assert table.column("number").unique().to_pylist() == [sha256(b"salt7").hexdigest()]
    assert "blob" not in step.schema.current.columns


@pytest.mark.parametrize(
    "names", [{"hive": ("meta.at.region",)}, {"hive": ("r",), "rules": FieldRules(renamed={"meta.at.region": "r"})}]
)
@pytest.mark.parametrize("value", ["eu", 7, True, None])
def test_a_field_inside_objects_names_folders_many_at_once(value: Any, names: dict[str, Any], path: Path) -> None:
    step = StagingStep(replace(ORDINARY, **names), at_once=True)
    values = ordinary(5_000, meta={"at": {"region": value}, "x": 1})
    values += [b'{"ts_ms":1}', b'{"ts_ms":1,"meta":null}', b'{"ts_ms":1,"meta":{"x":2}}']
    assert reads(step, values, path) <= 3 * FEW
    assert reads(step, values, path) == 0
    inside = pq.read_table(path)["meta"].to_pylist()
    assert inside[0] == ({"x": 1} if value is None else {"at": {"region": value}, "x": 1})


PARENTS = ['{"b":"x"}', '{"b":1}', '{"b":1.0}', '{"b":{}}', '{"b":[1]}', '{"b":null}', "{}", "[]", '"x"', "1", "null"]


@given(
    st.lists(st.lists(st.sampled_from([*PARENTS, '{"b":"x"}', '{"b":"y"},"a.b":"top"']), max_size=8), max_size=3),
    st.integers(1, 3),
)
def test_whatever_is_on_the_path_of_a_field(batches: list[list[str]], few: int) -> None:
    some = [messages(*(f'{{"ts_ms":1,"a":{parent}}}'.encode() for parent in batch)) for batch in batches if batch]
    assert_both_agree(Table(("a.b",)), some, few=few)
    assert_both_agree(Table(("b",), rules=FieldRules(renamed={"a.b": "b"})), some, few=few)


def test_a_record_with_a_field_and_the_column_that_it_becomes_is_refused(path: Path) -> None:
    step = StagingStep(Table(rules=FieldRules(renamed={"a": "b"})), at_once=True)
    staged = step.stage(messages(b'{"a":1}', b'{"a":2,"b":3}', b'{"b":4}'), path)
    [refused] = staged.rejected
    assert refused.reason == 'it has both "a" and "b", which RENAME_COLUMNS makes one column'
    assert pq.read_table(path)["b"].to_pylist() == [1, 4]


def test_a_field_that_is_renamed_may_have_its_new_name_already(path: Path) -> None:
    step = StagingStep(Table(rules=FieldRules(renamed={"a": "b"})), at_once=True)
    for name in ("a", "b", "a"):
        values = [json.dumps({"ts_ms": NOON, name: n}).encode() for n in range(5_000)]
        assert reads(step, values, path) <= FEW
        assert pq.read_table(path)["b"].to_pylist() == [*range(5_000)]


@pytest.mark.parametrize(
    "blob", [[], {}, None, {"a": None}, {"at": "2024-01-15T12:00:00"}, "2024-01-15T12:00:00"], ids=repr
)
def test_a_field_is_dropped_or_hashed_at_once_whatever_it_has(path: Path, blob: Any) -> None:
    for rules in (FieldRules(["blob"]), FieldRules(hashed=["blob"], salt="s")):
        step = StagingStep(Table(rules=rules), at_once=True)
        values = [json.dumps({"ts_ms": NOON, "n": n, "blob": blob}).encode() for n in range(5_000)]
        assert_both_agree(Table(rules=rules), [messages(*values[:6])] * 3, few=2)
        reads(step, values, path)
        assert reads(step, values, path) == (5_000 if rules.is_hashed("blob") and isinstance(blob, list | dict) else 0)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_dead_letter_has_the_fields_as_they_came(at_once: bool, tmp_path: Path) -> None:
    step = StagingStep(Table(("year",), rules=FieldRules(["blob"], {"a": "b"}, ["user"], "s")), at_once=at_once)
    came = {"ts_ms": "no time", "a": 1, "user": "Ann", "blob": 2}
    batch = Batch((part(last=0),), ([Row(came, b"k", NOON, 0)],), ([],))
    [refused] = step.stage_batch(batch, tmp_path / "staged").rejected
    assert refused.value == came


# --- whatever comes -------------------------------------------------------------------------------------------------

MAPS = [
    *("a:map<string,double>", "a:map<string,string>", "a:map<string,array<bigint>>,b:map<string,timestamp>"),
    *("a:map<string,struct<a:double,b:string>>", "a:map<string,map<string,bigint>>", "a:struct<a:map<string,double>>"),
    "a:array<map<string,struct<a:map<string,bigint>>>>",
]
TABLES = st.builds(
    Table,
    hive=st.lists(
        st.sampled_from(
            ["year", "day", "hour", "p", "a", "s", "ts_ms", "__key", "~s", "~a", "~year", "q", "__topic", "a.b", "a.a",
             "a.p.a", "__topic.a", "a."]
        ),
        max_size=3,
        unique_by=lambda name: name.removeprefix("~"),
    ).map(tuple),
    timestamp=st.sampled_from(["ts_ms", "ts_ms", "ts_ms", "a", "s", "t", "year", "__timestamp"]),
    types=st.sampled_from(
        ["", "", "", "a:double", "a:string", "a:timestamp", "a:timestamp_ntz", "a:date", "a:bigint", "a:int",
         "a:boolean", "a:binary", "a:decimal(38,18)", "a:decimal(20,0)", "a:array<timestamp>,b:array<double>",
         "a:array<string>", "a:struct<a:timestamp,b:double>", "a:struct<a:struct<a:date>>", "ts_ms:timestamp",
         "ts_ms:date,s:timestamp", "ts_ms:boolean", "__key:bigint,s:double", "b:int", "ts_ms:string",
         "__kafka_key:bigint,__offset:string", "ts_ms:double,b:timestamp_ntz", *MAPS]
    ),
    rules=st.sampled_from(
        [
            *[NO_RULES] * 4,
            FieldRules(["a", "q"]),
            FieldRules(renamed={"a": "b", "s": "a"}),
            FieldRules(["q"], {"a.b": "p", "a.a.b": "q", "a.p": "s"}),
            FieldRules(renamed={"b": "ts_ms", "ts_ms": "b"}),
            FieldRules(hashed=["a", "S"], salt="é"),
            FieldRules(["b"], {"a": "s", "p": "new"}, ["s", "t", "__key"], "x"),
        ]
    ),
    metadata=st.sampled_from(
        [(), (), ("__offset", "__partition"), ("__topic", "__timestamp", "__headers"), ("__headers",)]
    ),
    zone=st.sampled_from(["UTC", "UTC", "Europe/Prague", "America/St_Johns", "Africa/Monrovia"]),
)  # fmt: skip


@settings(suppress_health_check=list(HealthCheck))
@given(TABLES, odd_json.batches(odd_json.RECORDS), st.integers(1, 3))
def test_odd_records(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    assert_both_agree(table, batches, few=few)


@settings(suppress_health_check=list(HealthCheck))
@given(TABLES, odd_json.batches(odd_json.ALIKE), st.integers(1, 3))
def test_odd_values_in_columns_that_are_there(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    assert_both_agree(table, batches, few=few)


@given(TABLES, odd_json.batches(odd_json.PLAIN), st.integers(1, 3))
def test_records_of_mostly_one_kind(table: Table, batches: list[list[KafkaMessage]], few: int) -> None:
    assert_both_agree(table, batches, few=few)
