"""Which settings let messages be converted many at once."""

import pytest

from app.service.build import can_read_whole_batches
from tests.support.environment import load


@pytest.mark.parametrize(
    "variables",
    [{}, {"KAFKA_KEY_DESERIALIZER": "string"}, {"KAFKA_KEY_DESERIALIZER": "STR"}, {"ON_BAD_RECORD": "skip"}],
)
def test_keys_as_text_and_json_values_come_many_at_once(variables: dict[str, str]) -> None:
    assert can_read_whole_batches(load(**variables))


@pytest.mark.parametrize(
    "variables",
    [{"KAFKA_KEY_DESERIALIZER": "bytes"}, {"KAFKA_VALUE_DESERIALIZER": "quix"}, {"ON_BAD_RECORD": "fail"}],
)
def test_what_has_to_be_looked_at_one_by_one(variables: dict[str, str]) -> None:
    assert not can_read_whole_batches(load(**variables))
