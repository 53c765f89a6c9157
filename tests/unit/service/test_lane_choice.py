"""Which lane consumes: what ``transform()`` asks for and some settings decide, without Kafka."""

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quixstreams.dataframe import StreamingDataFrame

from app.service.lane_choice import choose_lane
from app.service.user_transform import Customised, load_customised
from tests.support.environment import load


def _bare(sdf: Any) -> Any:
    return sdf


@functools.lru_cache
def _decorated(sdf: Any) -> Any:
    return sdf


def _nested(sdf: Any) -> Any:
    if sdf is not None:
        return sdf
    return None


def _stateless(sdf: Any) -> Any:
    sdf = sdf[(sdf["a"] > 1) & sdf.contains("b")].drop("c", errors="ignore").fill("d", e=1)
    sdf["f"] = sdf["a"].apply(str) + sdf.apply(lambda value: value["b"])
    sdf = sdf.filter(bool).update(lambda _: None).apply(lambda value: [value], expand=True)
    return sdf.set_timestamp(lambda *_: 1).set_headers(lambda *_: [])[["a"]]


def _in_place(sdf: Any) -> Any:
    sdf["b"] = 1
    return sdf


def _side_branch(sdf: Any) -> Any:
    sdf.update(print)
    return sdf


def _catching(sdf: Any) -> Any:
    try:
        return sdf.to_topic(None)
    except Exception:  # noqa: BLE001
        return sdf


def _with_app(sdf: Any, app: Any) -> Any:
    return sdf


@pytest.mark.parametrize(
    "customised", [load_customised(), Customised(_bare), Customised(_decorated), Customised(_nested)]
)
def test_a_transform_that_adds_nothing_is_untouched(customised: Customised) -> None:
    assert choose_lane(customised, load()).is_untouched


@pytest.mark.parametrize("transform", [_stateless, _in_place, _side_branch])
def test_functions_of_single_records_are_run_by_the_connectors_own_loop(transform: Callable[..., Any]) -> None:
    choice = choose_lane(Customised(transform), load())
    assert choice.is_plain
    assert not choice.is_untouched


@pytest.mark.parametrize(
    ("transform", "named"),
    [
        (_with_app, "the application"),
        (_catching, "sdf.to_topic"),
        (lambda sdf: sdf.apply(max, stateful=True), "stateful=True"),
        (lambda sdf: sdf.tumbling_window(timedelta(1)).count().final(), "sdf.tumbling_window"),
        (lambda sdf: sdf.apply(len).group_by("a"), "sdf.group_by"),
        (lambda sdf: sdf.sink(None) or sdf, "sdf.sink"),
        (lambda sdf: sdf.concat(sdf), "sdf.concat"),
        (lambda sdf: sdf.join_lookup(None, {}), "sdf.join_lookup"),
        (lambda sdf: sdf.print(), "sdf.print"),
        (lambda sdf: sdf.of_a_later_version(), "sdf.of_a_later_version"),
    ],
)
def test_what_needs_quixstreams_goes_there_and_is_named(
    transform: Callable[..., Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamingDataFrame, "of_a_later_version", lambda sdf: sdf, raising=False)
    choice = choose_lane(Customised(transform), load())
    assert not choice.is_plain
    assert named in choice.why


@pytest.mark.parametrize(
    ("variables", "many_at_once"),
    [
        ({}, True),
        ({"KAFKA_KEY_DESERIALIZER": "string"}, True),
        ({"ON_BAD_RECORD": "skip"}, True),
        ({"KAFKA_VALUE_DESERIALIZER": "json-schema"}, True),
        ({"KAFKA_VALUE_DESERIALIZER": "Avro", "SCHEMA_REGISTRY_URL": "http://registry:8081"}, True),
        ({"KAFKA_KEY_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": "http://registry:8081"}, True),
        ({"KAFKA_KEY_DESERIALIZER": "bytes"}, True),
        ({"KAFKA_VALUE_DESERIALIZER": "quix"}, False),
        ({"ON_BAD_RECORD": "fail"}, False),
    ],
)
def test_keys_and_values_that_come_many_at_once(variables: dict[str, str], many_at_once: bool) -> None:
    choice = choose_lane(Customised(_bare), load(**variables))
    assert choice.is_plain == many_at_once
    assert many_at_once or all(f"{name}={value}" in choice.why for name, value in variables.items())
