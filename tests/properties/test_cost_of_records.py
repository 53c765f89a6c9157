"""No record costs more than its bytes: work is counted in calls, so a busy machine changes nothing."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from google.protobuf import struct_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.convert.json_columns import parse
from app.convert.rows import Rules, convert
from app.parts.avro.avro_messages import AvroMessages
from app.table.schema import EMPTY
from tests.support.avro import MemoryRegistry, datum, record
from tests.support.avro import framed as of_avro
from tests.support.batches import row
from tests.support.both_ways import StagingStep, Table, messages
from tests.support.protobuf import class_of, field, file, message, opened, registered
from tests.support.protobuf import framed as of_protobuf

_CALLS_OF_A_BYTE, _FEW_CALLS = 12, 20_000


def calls_of(work: Callable[[], object]) -> int:
    """Counts the calls of functions, also of those in C."""
    count = 0

    def called(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def nested(names: list[str], levels: list[str]) -> Any:
    """A list of objects with a name each, inside of lists and objects."""
    value: Any = [{name: 1} for name in names]
    for level in levels:
        value = {
            "of every kind": [value],
            "list": [[value]],
            "each": [{f"m{n}": each} for n, each in enumerate(value)],
        }[level]
    return value


@given(
    st.integers(1, 1_500),
    st.lists(st.sampled_from(["of every kind", "list", "each"]), max_size=2),
    st.sampled_from([1, 7, 5_000]),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_list_of_objects_costs_no_more_than_its_bytes(count: int, levels: list[str], different: int) -> None:
    value = {"ts_ms": 1, "a": nested([f"n{number % different}" for number in range(count)], levels)}
    size = len(json.dumps(value))
    spent = calls_of(lambda: convert([row(value)], EMPTY, Rules("ts_ms", frozenset())))
    assert spent < _FEW_CALLS + _CALLS_OF_A_BYTE * size


def test_a_list_that_is_refused_costs_the_same_each_time() -> None:
    values = [{"ts_ms": 1, "a": [{f"n{at}_{name}": 1} for name in range(1_100)]} for at in range(8)]
    spent = calls_of(lambda: convert([row(value) for value in values], EMPTY, Rules("ts_ms", frozenset())))
    assert spent < _FEW_CALLS + _CALLS_OF_A_BYTE * len(json.dumps(values))


@pytest.mark.parametrize("count", [1_100, 5_000])
def test_lists_of_objects_with_new_names_are_left_to_the_slow_way(count: int) -> None:
    text = json.dumps({"ts_ms": 1, "a": [{f"n{number}": 1} for number in range(count)]}).encode()
    assert parse([text], {}) is None
    assert parse([text] * 3, {}) is None
    dense = json.dumps({"ts_ms": 1, "a": [{"x": number, "y": 1} for number in range(count)]}).encode()
    assert parse([dense], {}) is not None


@pytest.mark.parametrize("at_once", [True, False])
def test_a_map_with_many_different_keys_costs_what_one_with_few_does(at_once: bool, tmp_path: Path) -> None:
    def spent(different: int) -> int:
        step = StagingStep(Table(types="m:map<string,double>"), at_once=at_once, few=1)
        objects = ({f"n{(100 * at + number) % different:06}": 0.5 for number in range(100)} for at in range(1_000))
        texts = [json.dumps({"ts_ms": 1, "m": each}).encode() for each in objects]
        step.stage(messages(*texts[:2]), tmp_path / "staged")
        return calls_of(lambda: step.stage(messages(*texts), tmp_path / "staged"))

    assert spent(100_000) <= spent(100)


AVRO = record(("ts_ms", "long"), ("a", {"type": "array", "items": {"type": "map", "values": "long"}}))
PROTOBUF = file(
    message("Reading", field("ts_ms", "int64"), field("a", ".google.protobuf.ListValue")),
    package="lab",
    dependency=[struct_pb2.DESCRIPTOR.name],
)


def in_avro(values: list[dict[str, int]]) -> bytes:
    return of_avro(1, datum(AVRO, {"ts_ms": 1, "a": values}))


def in_protobuf(values: list[dict[str, int]]) -> bytes:
    written = class_of("lab.Reading", PROTOBUF)(ts_ms=1)
    written.a.extend(values)
    return of_protobuf(1, written.SerializeToString())


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("few", [1_100, 3_000])
@pytest.mark.parametrize(
    ("table", "encode"),
    [
        (Table(avro=AvroMessages(MemoryRegistry({1: AVRO}).find)), in_avro),
        (Table(protobuf=opened(registered(PROTOBUF))), in_protobuf),
    ],
    ids=["avro", "protobuf"],
)
def test_maps_with_new_names_cost_no_more_than_their_bytes(
    table: Table, encode: Callable[[list[dict[str, int]]], bytes], few: int, at_once: bool, tmp_path: Path
) -> None:
    texts = [encode([{f"n{at}_{name}": 1} for name in range(few)]) for at in range(4)]
    step = StagingStep(table, at_once=at_once, few=1)
    spent = calls_of(lambda: step.stage(messages(*texts), tmp_path / "staged"))
    assert spent < _FEW_CALLS + _CALLS_OF_A_BYTE * sum(map(len, texts))
