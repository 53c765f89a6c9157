"""Which lane consumes: the source of ``transform()`` and some settings decide."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from app.service.build import can_read_whole_batches
from app.service.customised import Customised, load_customised
from tests.support.environment import load


def _bare(sdf: Any) -> Any:
    return sdf


def _with_docstring(stream: Any, app: Any) -> Any:
    return stream


def _filter(sdf: Any) -> Any:
    return sdf[sdf["a"] > 1]


def _side_branch(sdf: Any) -> Any:
    sdf.print()
    return sdf


def _other_name(sdf: Any, app: Any) -> Any:
    return app


def _nested(sdf: Any) -> Any:
    if sdf is not None:
        return sdf
    return None


@functools.lru_cache
def _decorated(sdf: Any) -> Any:
    return sdf


class _Method:
    def transform(self, sdf: Any) -> Any:
        return sdf


@pytest.mark.parametrize("customised", [load_customised(), Customised(_bare), Customised(_with_docstring)])
def test_the_file_as_it_comes_and_returning_what_was_given_are_nothing(customised: Customised) -> None:
    assert customised.is_untouched


@pytest.mark.parametrize(
    "transform", [_filter, _side_branch, _other_name, _nested, _decorated, _Method().transform, len]
)
def test_whatever_may_do_something_counts(transform: Callable[..., Any]) -> None:
    assert not Customised(transform).is_untouched


@pytest.mark.parametrize(
    ("variables", "many_at_once"),
    [
        ({}, True),
        ({"KAFKA_KEY_DESERIALIZER": "string"}, True),
        ({"KAFKA_KEY_DESERIALIZER": "STR"}, True),
        ({"ON_BAD_RECORD": "skip"}, True),
        ({"KAFKA_VALUE_DESERIALIZER": "json-schema"}, True),
        ({"KAFKA_VALUE_DESERIALIZER": "Avro", "SCHEMA_REGISTRY_URL": "http://registry:8081"}, True),
        ({"KAFKA_KEY_DESERIALIZER": "avro", "SCHEMA_REGISTRY_URL": "http://registry:8081"}, True),
        ({"KAFKA_KEY_DESERIALIZER": "bytes"}, False),
        ({"KAFKA_VALUE_DESERIALIZER": "quix"}, False),
        ({"ON_BAD_RECORD": "fail"}, False),
    ],
)
def test_keys_and_values_that_come_many_at_once(variables: dict[str, str], many_at_once: bool) -> None:
    assert can_read_whole_batches(load(**variables)) == many_at_once
