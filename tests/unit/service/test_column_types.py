"""COLUMN_TYPES from the first record of a table on, with the parts as the service builds them from the settings."""

import json
import logging
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from quixstreams.models import Topic

from app.bad_records.refusals import BadRecords
from app.config.settings import Settings
from app.model import Batch, Message, Row
from app.service.formats import new_deserializer, new_formats, new_stager, read_message
from app.service.lake import new_lake, new_location, new_store
from app.table.type_names import type_name
from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import NOON, part, stage
from tests.support.environment import BROKER_ALONE, load

both_ways = pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])

# A type, JSON texts, what the column holds of them, and what is rescued of the first that does not fit.
TYPES: dict[str, tuple[list[str], list[Any]]] = {
    "boolean": (["true", "null", "false"], [True, None, False]),
    "int": (["1", "2.0", "2147483648"], [1, 2, None]),
    "bigint": (["1", "2.0", "1.5"], [1, 2, None]),
    "double": (["1", "1.5", "9007199254740993"], [1.0, 1.5, None]),
    "decimal(10,2)": (["1", "0.1", "0.125"], [Decimal("1.00"), Decimal("0.10"), None]),
    "string": (["1", '"x"', '{"a":[1.5]}', "{}"], ["1", "x", '{"a":[1.5]}', "{}"]),
    "binary": (["null", '"text"'], [None, None]),
    "date": (['"2024-01-15"', '"soon"'], [date(2024, 1, 15), None]),
    "timestamp": (['"2024-01-15T14:00:00+02:00"', "1"], [datetime(2024, 1, 15, 12, tzinfo=UTC), None]),
    "timestamp_ntz": (['"2024-01-15T12:00:00"', '"2024-01-15T12:00:00Z"'], [datetime(2024, 1, 15, 12), None]),
    "array<double>": (["[1,null,2.5]", "[]", '["x"]'], [[1.0, None, 2.5], [], None]),
    "array<array<string>>": (['[[1],["x"]]', "[[]]"], [[["1"], ["x"]], [[]]]),
    "map<string,double>": (
        ['{"a":1,"b":null,"a":2.5}', "{}", "null", '["x"]', "7"],
        [[("a", 2.5), ("b", None)], [], None, None, None],
    ),
    "array<map<string,string>>": (['[{"a":{"b":[1.5]}},{}]', "[1]"], [[[("a", '{"b":[1.5]}')], []], None]),
    "struct<a:double,b:string>": (
        ['{"a":1}', '{"b":7}', '{"c":1}'],
        [{"a": 1.0, "b": None}, {"a": None, "b": "7"}, None],
    ),
    "struct<a:struct<b:timestamp>,c:array<decimal(5,1)>>": (
        ['{"a":{"b":"2024-01-15T12:00:00Z"},"c":[1.5]}'],
        [{"a": {"b": datetime(2024, 1, 15, 12, tzinfo=UTC)}, "c": [Decimal("1.5")]}],
    ),
}


class Life:
    """One start of the connector: what it stages, by a schema that it reads from the store."""

    def __init__(self, settings: Settings, folder: Path, *, at_once: bool) -> None:
        store = new_store(settings)
        place = new_location(settings, store, None)
        store.connect(f"{place.root}/")
        lake = new_lake(settings, store, place)
        self.schema = lake.schema
        self.schema.open()
        topic = Topic("sensors", value_deserializer=new_deserializer("json"), key_deserializer="str")
        self._read = partial(read_message, topic)
        self._at_once = at_once
        formats = replace(new_formats(settings, None), read=self._read if at_once else None)
        self._stager = new_stager(settings, lake, BadRecords(settings.on_bad_record, logging.warning), formats)
        self._path = folder / "staged.parquet"

    def stage(self, *texts: str) -> pa.Table:
        messages = [KafkaMessage(text.encode(), b"k", at) for at, text in enumerate(texts)]
        rows = [row for row in map(self._read, messages) if isinstance(row, Row)]
        assert len(rows) == len(texts)
        of_part: list[Message] = list(messages) if self._at_once else []
        batch = Batch((part(last=len(texts) - 1),), ([] if self._at_once else rows,), (of_part,))
        staged = stage(self._stager, batch, self._path)
        assert staged.file
        return pq.read_table(staged.file.path)


def settings_with(folder: Path, column_types: str, **more: str) -> Settings:
    variables = {"STORAGE_URL": (folder / "lake").as_uri(), "TABLE_NAME": "t", "COLUMN_TYPES": column_types}
    return load(BROKER_ALONE, **variables, **more)


def records(texts: list[str], column: str = "x") -> list[str]:
    return [f'{{"n":{n},"ts_ms":{NOON},"{column}":{text}}}' for n, text in enumerate(texts)]


def column(table: pa.Table, name: str = "x") -> list[Any]:
    return table[name].to_pylist() if name in table.column_names else [None] * table.num_rows


def without_place(table: pa.Table, texts: list[str]) -> list[Any]:
    """Of the values that the column does not hold, what was rescued."""
    rescued = [json.loads(text or "{}") for text in column(table, "_rescued_data")]
    assert all(set(fields) <= {"x"} for fields in rescued)
    return [fields.get("x") for fields in rescued]


@both_ways
@pytest.mark.parametrize("kind", TYPES)
def test_a_new_table_has_the_type_from_the_first_record_on_and_after_a_restart(
    tmp_path: Path, kind: str, at_once: bool
) -> None:
    texts, stored = TYPES[kind]
    settings = settings_with(tmp_path, f"x:{kind},never:date")
    left_over = [None if value is not None else json.loads(text) for text, value in zip(texts, stored, strict=True)]
    fits = any(value is not None for value in stored)
    for _ in range(2):
        life = Life(settings, tmp_path, at_once=at_once)
        for _ in range(2):
            table = life.stage(*records(texts))
            assert column(table) == stored
            assert without_place(table, texts) == left_over
            found = life.schema.current.columns.get("x")
            assert (found and type_name(found)) == (kind if fits else None)
        assert "never" not in life.schema.current.columns


@both_ways
def test_a_table_that_exists_without_the_column_gets_it_with_the_type(tmp_path: Path, at_once: bool) -> None:
    Life(settings_with(tmp_path, ""), tmp_path, at_once=at_once).stage(*records(["1"], "y"))
    settings = settings_with(tmp_path, "x:string,price:decimal(10,2)")
    for _ in range(2):
        life = Life(settings, tmp_path, at_once=at_once)
        assert column(life.stage(*records(["7"]))) == ["7"]
        assert column(life.stage(*records(["7"], "price")), "price") == [Decimal("7.00")]


@both_ways
def test_a_first_value_that_does_not_fit_leaves_the_type_to_the_setting(tmp_path: Path, at_once: bool) -> None:
    life = Life(settings_with(tmp_path, "x:double"), tmp_path, at_once=at_once)
    assert "x" not in life.stage(*records(['"warm"', "null"])).column_names
    assert column(life.stage(*records(["1"]))) == [1.0]


@both_ways
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "string", "date", "bigint", "double"])
def test_the_timestamp_column_has_its_type_where_kafka_fills_it(tmp_path: Path, kind: str, at_once: bool) -> None:
    settings = settings_with(tmp_path, f"ts_ms:{kind}")
    expected = {
        "timestamp": datetime(2024, 1, 15, 12, tzinfo=UTC),
        "timestamp_ntz": datetime(2024, 1, 15, 12),
        "string": "2024-01-15T12:00:00.000+00:00",
        "date": date(2024, 1, 15),
        "bigint": NOON,
        "double": float(NOON),
    }
    for _ in range(2):
        life = Life(settings, tmp_path, at_once=at_once)
        assert column(life.stage('{"n":1}', '{"n":2}'), "ts_ms") == [expected[kind]] * 2


@both_ways
def test_keys_and_metadata_have_their_types_too(tmp_path: Path, at_once: bool) -> None:
    settings = settings_with(tmp_path, "__offset:string,__key:bigint", METADATA_COLUMNS="__offset")
    for _ in range(2):
        table = Life(settings, tmp_path, at_once=at_once).stage(*records(["1", "2"]))
        assert column(table, "__offset") == ["0", "1"]
        assert column(table, "_rescued_data") == ['{"__kafka_key":"k"}'] * 2


def test_a_fixed_double_stays_one_where_another_member_was_quicker(tmp_path: Path) -> None:
    life = Life(settings_with(tmp_path, "x:double"), tmp_path, at_once=True)
    Life(settings_with(tmp_path, ""), tmp_path, at_once=True).stage(*records(["1"]))
    table = life.stage(*records(["1.5"], "y"))
    assert column(life.stage(*records(["1.5"]))) == [1.5]
    assert "_rescued_data" not in table.column_names


def test_names_in_another_case_leave_the_first_one_its_place(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, "Temp:double")
    life = Life(settings, tmp_path, at_once=True)
    table = life.stage('{"temp":1,"ts_ms":1}', '{"Temp":2,"ts_ms":1}')
    assert column(table, "temp") == [1, None]
    assert column(table, "_rescued_data") == [None, '{"Temp":2}']
    Life(settings, tmp_path, at_once=True).stage('{"temp":3,"ts_ms":1}')


@both_ways
def test_fields_follow_their_settings_before_all_others(tmp_path: Path, at_once: bool) -> None:
    rules = {"DROP_COLUMNS": "blob", "RENAME_COLUMNS": "n:x,at:ts_ms", "HASH_COLUMNS": "user", "HASH_SALT": "s"}
    settings = settings_with(tmp_path, "x:double", **rules)
    for _ in range(2):
        table = Life(settings, tmp_path, at_once=at_once).stage('{"n":1,"at":7,"user":"Ann","blob":{"a":1}}')
        assert {*table.column_names} >= {"x", "ts_ms", "user"}
        assert {*table.column_names}.isdisjoint({"n", "at", "blob"})
        assert (column(table), column(table, "ts_ms")) == ([1.0], [7])
        assert column(table, "user") == [sha256(b"sAnn").hexdigest()]


@pytest.mark.parametrize(("columns", "told"), [("__key,_x,year", "__key, _x"), ("location,year", None)])
def test_folders_that_some_engines_skip_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, columns: str, told: str | None
) -> None:
    settings = load(S3_BUCKET="", STORAGE_URL=f"file://{tmp_path}", HIVE_COLUMNS=columns)
    store = new_store(settings)
    new_lake(settings, store, new_location(settings, store, None))
    warnings = [message for message in caplog.messages if "HIVE_COLUMNS" in message]
    assert len(warnings) == bool(told)
    assert told is None or told in warnings[0]
