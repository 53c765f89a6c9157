"""Whole numbers beyond 64 bits keep their digits wherever they go, whichever way their messages are converted."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from quixstreams.models import Topic

from app.consumer.exact_json import new_deserializer
from app.consumer.plain.reader import MessageReader
from app.model import Row
from app.table.type_names import type_name
from tests.fakes.kafka_message import KafkaMessage
from tests.support.both_ways import StagingStep, Table, messages

IDS = [2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, -(2**64), 10**37 + 1]


@pytest.fixture(params=[True, False], ids=["at once", "one by one"])
def at_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def staged(
    tmp_path: Path, at_once: bool, table: Table, *texts: str
) -> tuple[StagingStep, list[dict[str, Any]], list[str]]:
    """The step, the rows, each with what was rescued of it, and the folders."""
    step = StagingStep(table, at_once=at_once)
    for _ in range(2):  # the second batch finds the schema of the first
        result = step.stage(messages(*(text.encode() for text in texts)), tmp_path / "staged.parquet")
        assert not result.rejected
        assert result.file
        rows = pq.read_table(result.file.path).to_pylist()
        for row in rows:
            row["rescued"] = json.loads(row.pop("_rescued_data", None) or "{}")
        folders = [value for group in result.file.groups for value in group.partition_values.values()]
    return step, rows, folders


@pytest.mark.parametrize("others", ["1", "1.5", '"text"', "null"])
def test_in_a_new_column_they_are_rescued_and_do_not_make_it_double(tmp_path: Path, at_once: bool, others: str) -> None:
    texts = [f'{{"x":{number}}}' for number in IDS]
    step, rows, _ = staged(tmp_path, at_once, Table(), *texts, f'{{"x":{others}}}', *texts)
    kinds = {"1": "bigint", "1.5": "double", '"text"': "string", "null": None}
    found = step.schema.current.columns.get("x")
    assert (found and type_name(found)) == kinds[others]
    rescued = [row["rescued"].get("x") for row in rows]
    assert repr(rescued) == repr([*IDS, None, *IDS])


def test_in_columns_fixed_to_text_or_to_decimals_all_digits_are_stored(tmp_path: Path, at_once: bool) -> None:
    texts = [f'{{"s":{number},"d":{number},"l":[{number}]}}' for number in IDS]
    table = Table(types="s:string,d:decimal(38,0),l:array<decimal(38,0)>")
    _, rows, _ = staged(tmp_path, at_once, table, *texts)
    assert [row["s"] for row in rows] == [str(number) for number in IDS]
    assert [row["d"] for row in rows] == [Decimal(number) for number in IDS]
    assert [row["l"] for row in rows] == [[Decimal(number)] for number in IDS]
    assert not any(row["rescued"] for row in rows)


def test_inside_objects_and_lists_they_are_rescued_with_all_digits(tmp_path: Path, at_once: bool) -> None:
    texts = [f'{{"o":{{"a":1,"b":{{"c":{number}}}}},"l":[1,{number}],"t":"x"}}' for number in IDS]
    _, rows, _ = staged(tmp_path, at_once, Table(), '{"o":{"b":{"c":1}},"l":[1]}', *texts)
    assert repr([row["rescued"] for row in rows[1:]]) == repr([{"o": {"b": {"c": n}}, "l": [1, n]} for n in IDS])
    assert [row["o"] for row in rows[1:]] == [{"b": None, "a": 1}] * len(IDS)


def test_in_a_text_column_they_are_rescued_with_all_digits(tmp_path: Path, at_once: bool) -> None:
    texts = [f'{{"x":{{"id":{number}}}}}' for number in IDS]
    _, rows, _ = staged(tmp_path, at_once, Table(), '{"x":"text"}', *texts)
    assert repr([row["rescued"]["x"] for row in rows[1:]]) == repr([{"id": number} for number in IDS])


@pytest.mark.parametrize("first", ["", '{"id":"a"}', '{"id":1}', '{"id":1.5}'])
def test_each_has_a_folder_of_its_own(tmp_path: Path, at_once: bool, first: str) -> None:
    texts = [f'{{"id":{number},"x":1}}' for number in IDS]
    _, rows, folders = staged(tmp_path, at_once, Table(("id",)), *([first] if first else []), *texts)
    assert folders[-len(IDS) :] == [str(number) for number in IDS]
    assert len(rows) == len(texts) + bool(first)


@pytest.mark.parametrize("number", IDS)
def test_keys_that_are_json_keep_them(number: int) -> None:
    json_alone = Topic("t", value_deserializer=new_deserializer("json"), key_deserializer=new_deserializer("json"))
    read = MessageReader(json_alone, 1_000).read(KafkaMessage(b"{}", str(number).encode()))
    assert isinstance(read, Row)
    assert repr(read.key) == repr(number)
