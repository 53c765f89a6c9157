"""Whole numbers beyond 64 bits keep their digits wherever they go, whichever way their messages are converted."""

from decimal import Decimal
from pathlib import Path

import pytest
from quixstreams.models import Topic

from app.consumer.exact_json import new_deserializer
from app.consumer.plain.reader import MessageReader
from app.model import Row
from app.table.type_names import type_name
from tests.fakes.kafka_message import KafkaMessage
from tests.support.both_ways import Table
from tests.unit.convert.conversions import both_ways, staged

TWICE = 2  # the second batch finds the schema of the first
IDS = [2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, -(2**64), 10**37 + 1]


@both_ways
@pytest.mark.parametrize("others", ["1", "1.5", '"text"', "null"])
def test_in_a_new_column_they_are_rescued_and_do_not_make_it_double(tmp_path: Path, at_once: bool, others: str) -> None:
    texts = [f'{{"x":{number}}}' for number in IDS]
    rows, _, schema = staged(tmp_path, Table(), *texts, f'{{"x":{others}}}', *texts, at_once=at_once, times=TWICE)
    kinds = {"1": "bigint", "1.5": "double", '"text"': "string", "null": None}
    found = schema.columns.get("x")
    assert (found and type_name(found)) == kinds[others]
    rescued = [row["rescued"].get("x") for row in rows]
    assert repr(rescued) == repr([*IDS, None, *IDS])


@both_ways
def test_in_columns_fixed_to_text_or_to_decimals_all_digits_are_stored(tmp_path: Path, at_once: bool) -> None:
    texts = [f'{{"s":{number},"d":{number},"l":[{number}]}}' for number in IDS]
    table = Table(types="s:string,d:decimal(38,0),l:array<decimal(38,0)>")
    rows, *_ = staged(tmp_path, table, *texts, at_once=at_once, times=TWICE)
    assert [row["s"] for row in rows] == [str(number) for number in IDS]
    assert [row["d"] for row in rows] == [Decimal(number) for number in IDS]
    assert [row["l"] for row in rows] == [[Decimal(number)] for number in IDS]
    assert not any(row["rescued"] for row in rows)


@both_ways
def test_inside_objects_and_lists_they_are_rescued_with_all_digits(tmp_path: Path, at_once: bool) -> None:
    texts = [f'{{"o":{{"a":1,"b":{{"c":{number}}}}},"l":[1,{number}],"t":"x"}}' for number in IDS]
    rows, *_ = staged(tmp_path, Table(), '{"o":{"b":{"c":1}},"l":[1]}', *texts, at_once=at_once, times=TWICE)
    assert repr([row["rescued"] for row in rows[1:]]) == repr([{"o": {"b": {"c": n}}, "l": [1, n]} for n in IDS])
    assert [row["o"] for row in rows[1:]] == [{"b": None, "a": 1}] * len(IDS)


@both_ways
def test_in_a_text_column_they_are_rescued_with_all_digits(tmp_path: Path, at_once: bool) -> None:
    texts = [f'{{"x":{{"id":{number}}}}}' for number in IDS]
    rows, *_ = staged(tmp_path, Table(), '{"x":"text"}', *texts, at_once=at_once, times=TWICE)
    assert repr([row["rescued"]["x"] for row in rows[1:]]) == repr([{"id": number} for number in IDS])


@both_ways
@pytest.mark.parametrize("first", ["", '{"id":"a"}', '{"id":1}', '{"id":1.5}'])
def test_each_has_a_folder_of_its_own(tmp_path: Path, at_once: bool, first: str) -> None:
    texts = [f'{{"id":{number},"x":1}}' for number in IDS]
    rows, folders, _ = staged(
        tmp_path, Table(("id",)), *([first] if first else []), *texts, at_once=at_once, times=TWICE
    )
    assert folders[-len(IDS) :] == [{"id": str(number)} for number in IDS]
    assert len(rows) == len(texts) + bool(first)


@pytest.mark.parametrize("number", IDS)
def test_keys_that_are_json_keep_them(number: int) -> None:
    json_alone = Topic("t", value_deserializer=new_deserializer("json"), key_deserializer=new_deserializer("json"))
    read = MessageReader(json_alone, 1_000).read(KafkaMessage(b"{}", str(number).encode()))
    assert isinstance(read, Row)
    assert repr(read.key) == repr(number)
