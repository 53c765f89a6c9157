"""An edited ``transform()`` over many messages, beside what ``tests/properties/test_both_lanes.py`` compares."""

import asyncio
import copy
import json
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from math import nan
from pathlib import Path
from typing import Any

import pytest
from quixstreams import message_context
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic

from app.consumer.plain.transformer import Transformed, Transformer, stateless_dataframe
from app.consumer.rows import text_of
from app.errors import FatalError, RetryableError
from app.model import Row
from app.service.formats import RegisteredDeserializer
from tests.fakes.clock import Clock
from tests.fakes.kafka_message import KafkaMessage
from tests.support.batches import UNBOUNDED

MESSAGES = [KafkaMessage(json.dumps({"v": number}).encode(), b"k", at=number) for number in range(5)]
CLOCK = Clock()


def transformer(function: Callable[..., Any], *, value_deserializer: Any = "json", **how: Any) -> Transformer:
    topic = Topic("sensors", value_deserializer=value_deserializer, key_deserializer="str")
    built = stateless_dataframe().apply(function, **how)
    limits = replace(UNBOUNDED, max_buffer_bytes=100_000, max_record_bytes=10_000)
    return Transformer(
        topic, built, limits, values_are_json=value_deserializer == "json", keys_are_text=True, clock=CLOCK
    )


def run(function: Callable[..., Any], *, room: int = 10**6, seconds: float = 1.0, **how: Any) -> Transformed:
    return transformer(function, **how).run(MESSAGES, room=room, until=CLOCK() + seconds)


def rows_of(done: Transformed) -> list[Row]:
    return [each.row() for each in done.texts] or done.rows


def test_a_slow_function_gets_as_many_messages_as_its_turn_takes() -> None:
    def slow(value: Any) -> Any:
        CLOCK.advance(0.4)
        return value

    done = run(slow)
    assert done.messages == 3
    assert [row.offset for row in rows_of(done)] == [0, 1, 2]


def test_rows_are_made_as_far_as_there_is_room() -> None:
    done = run(lambda value: [value] * 10, expand=True, room=8_000)
    assert 1 < done.messages < 5
    assert len(rows_of(done)) == 10 * done.messages
    assert done.size >= 8_000


@pytest.mark.parametrize("is_endless", [True, False])
def test_a_message_whose_rows_take_more_than_the_buffer_is_a_bad_record(is_endless: bool) -> None:
    def rows(value: Any) -> Iterator[Any]:
        yield value
        while value["v"] == 1 and is_endless:
            yield {**value, "text": "x" * 1_000}

    done = run(rows, expand=True)
    assert [row.offset for row in rows_of(done)] == ([0, 2, 3, 4] if is_endless else [0, 1, 2, 3, 4])
    assert len(done.refusals) == is_endless
    assert all("which need more memory than MAX_BUFFER_MB allows" in each.rejected.reason for each in done.refusals)


@pytest.mark.parametrize(
    "sizes", [[20_000, 1], [1, 20_000], [20_000, *[1] * 20]], ids=["large first", "large last", "one of many"]
)
def test_each_row_counts_for_the_room(sizes: list[int]) -> None:
    done = run(lambda _: [{"text": "x" * size} for size in sizes], expand=True, room=90_000)
    assert done.messages in (2, 3)
    assert not done.refusals


def test_refusals_and_what_is_made_of_texts_count_for_the_room() -> None:
    def last_is_no_text(value: Any) -> Any:
        return {"text": "x" * 400, "at": date(2024, 1, 1) if value["v"] == 2 else ""}

    assert run(last_is_no_text, room=10_000).messages == 3
    assert 1 < run(lambda _: 1 / 0, room=250).messages < 5


def test_a_text_takes_no_more_memory_than_it_is_long() -> None:
    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

    before = resident()
    texts = [text_of({"v": number, "text": "x" * 100}, 0) for number in range(50_000)]
    assert resident() - before < 60
    assert len(texts) == 50_000


@pytest.mark.parametrize("timestamp", [1.5, "1", True, None, nan])
def test_a_timestamp_that_no_message_has_makes_a_bad_record(timestamp: Any) -> None:
    assert refused(lambda sdf: sdf.set_timestamp(lambda *_: timestamp)).startswith("set_timestamp() set ")


@pytest.mark.parametrize(
    "headers", [{"a": b"b"}, "ab", 5, [("a", b"b", 1)], [("a", 5)], [(1, b"b")], [("\ud800", b"b")], iter([])]
)
def test_headers_that_no_message_has_make_a_bad_record(headers: Any) -> None:
    assert refused(lambda sdf: sdf.set_headers(lambda *_: headers)).startswith("set_headers() set ")


def refused(transform: Callable[[StreamingDataFrame], StreamingDataFrame]) -> str:
    topic = Topic("sensors", value_deserializer="json", key_deserializer="str")
    built = transform(stateless_dataframe())
    form = {"values_are_json": True, "keys_are_text": True}
    done = Transformer(topic, built, UNBOUNDED, **form, clock=CLOCK).run(MESSAGES[:1], room=1, until=CLOCK() + 1)
    (refusal,) = done.refusals
    return refusal.rejected.reason


def test_functions_see_the_message_in_its_context_which_can_be_copied() -> None:
    done = run(lambda _: {"at": copy.deepcopy(message_context()).offset, "size": message_context().size})
    assert [row.value for row in rows_of(done)] == [
        {"at": at, "size": len(message)} for at, message in enumerate(MESSAGES)
    ]


def test_only_messages_that_gave_a_row_or_are_refused_are_heard_of() -> None:
    def function(value: Any) -> Any:
        if value["v"] == 3:
            raise ValueError("odd")
        return [value] * (value["v"] % 2)

    done = run(function, expand=True)
    assert [message.offset() for message in done.heard] == [1, 3]
    assert done.messages == 5


@pytest.mark.parametrize("beside", [1, nan])
def test_a_function_may_go_on_changing_what_it_returned(beside: float) -> None:
    shared: dict[str, Any] = {"all": [], "beside": beside}

    def function(value: Any) -> Any:
        shared["all"].append(value["v"])
        return shared

    assert [row.value["all"] for row in rows_of(run(function))] == [
        [0],
        [0, 1],
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1, 2, 3, 4],
    ]


def test_rows_with_a_value_that_json_has_not_go_as_they_are_with_all_of_their_run() -> None:
    some = transformer(lambda value: {"v": 1.5 if value["v"] else nan})
    for _ in range(100):
        done = some.run(MESSAGES, room=10**6, until=CLOCK() + 1)
        assert repr([row.value["v"] for row in done.rows]) == "[nan, 1.5, 1.5, 1.5, 1.5]"
        assert all(row.message for row in done.rows)
    done = some.run(MESSAGES[1:], room=10**6, until=CLOCK() + 1)
    assert [row.value["v"] for row in rows_of(done)] == [1.5] * 4


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (SystemExit(3), FatalError, r"it called sys.exit\(3\)"),
        (RetryableError("asking", "away"), RetryableError, "away"),
        (BufferError("full"), RetryableError, "full"),
        (asyncio.CancelledError(), FatalError, "it raised CancelledError"),
    ],
)
def test_an_error_that_is_not_of_the_record_ends_the_process(
    error: BaseException, expected: type[Exception], said: str
) -> None:
    def function(_: Any) -> Any:
        raise error

    with pytest.raises(expected, match=said):
        run(function)


def test_a_dataframe_that_is_asked_for_more_while_it_runs_ends_the_process() -> None:
    sdf = stateless_dataframe()
    with pytest.raises(FatalError, match="it raised NeedsFrameworkError at "):
        run(lambda _: sdf.print())


def test_a_registry_that_is_away_refuses_no_message() -> None:
    def ask(*_: object) -> None:
        raise RetryableError("asking for a schema", "refused")

    with pytest.raises(RetryableError):
        run(lambda value: value, value_deserializer=RegisteredDeserializer(ask))
