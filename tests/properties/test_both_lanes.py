"""A stateless ``transform()`` gives the same rows and bad records in the connector's loop and in quixstreams' loop."""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from quixstreams import Application, message_context
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic

from app.consumer.framework.application import Callbacks
from app.consumer.plain.transformer import Transformer, stateless_dataframe
from app.consumer.rows import RowMessage, row_of
from app.model import Batch, Message, Rejected, Row, TopicPartition
from app.service.formats import KeyDeserializer, new_deserializer
from tests.fakes.clock import Clock
from tests.fakes.kafka_message import KafkaMessage
from tests.support import odd_json
from tests.support.batches import UNBOUNDED, part
from tests.support.both_ways import StagingStep, Table, outcome_of
from tests.unit.consumer.framework.row_sink_bench import Bench

Outcome = tuple[list[Row], list[Rejected]]
Transform = Callable[[StreamingDataFrame], StreamingDataFrame]
_seen: ContextVar[int] = ContextVar("seen", default=0)


class Calls:
    """The operations of a random ``transform()``, and how often its functions were called."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._kept: dict[str, Any] = {}

    def noting(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            self.count[name] += 1
            return work(*given)

        return noted

    def shared(self, value: Any) -> Any:
        """Always the same object, which the next record changes."""
        self._kept["last"] = value
        self._kept.setdefault("list", []).append(1)
        return self._kept


def _filter(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    return sdf.filter(calls.noting("filter", lambda value: value["a"] != 0))


def _by_column(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    return sdf[(sdf["a"] > 1) & sdf["b"].notnull()]


def _arithmetic(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    sdf["c"] = sdf["a"] * 2 + 1
    sdf["d"] = sdf.apply(calls.noting("column", lambda value: [value["a"]]))
    return sdf


def _columns(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    return sdf[["a", "b"]]


def _update(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    return sdf.update(calls.noting("update", lambda value: value.pop("b")))


def _drop(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    return sdf.drop("b", errors="ignore").fill(a=7)


def _contains(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    sdf["has"] = sdf.contains("a")
    return sdf


def _expand(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    return sdf.apply(calls.noting("expand", lambda value: [value, {**value, "n": 1}] * (len(value) % 3)), expand=True)


def _metadata(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    def described(value: Any, key: Any, timestamp: int, headers: Any) -> Any:
        context = message_context()
        about = context.topic, context.partition, context.offset, context.size, context.leader_epoch
        return {"value": value, "key": key, "timestamp": timestamp, "headers": headers, "about": about}

    return sdf.apply(calls.noting("metadata", described), metadata=True)


def _context(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    def count(value: Any) -> None:
        _seen.set(_seen.get() + 1)
        value["seen"] = _seen.get()

    return sdf.update(count)


def _time_and_headers(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    later = calls.noting("time", lambda _, __, timestamp, ___: timestamp + 1)
    return sdf.set_timestamp(later).set_headers(lambda _, key, __, headers: [*headers, ("key", key)])


def _branch(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    sdf.update(calls.noting("branch", lambda value: value.clear()))
    return sdf


def _no_dict(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    return sdf.apply(lambda value: value.get("a"))


def _shared(sdf: StreamingDataFrame, calls: Calls) -> StreamingDataFrame:
    return sdf.apply(calls.shared)


def _itself(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    return sdf.update(lambda value: value.update(self=value) if value.get("a") == 3 else None)


def _no_json(sdf: StreamingDataFrame, _: Calls) -> StreamingDataFrame:
    odd = [float("nan"), datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.5"), b"raw", (1, 2), 2**70, {1: 2}, "\ud800"]

    def function(value: Any) -> Any:
        number = value.get("a")
        return {**value, "odd": [odd[number]] if number % 2 else odd[number]} if type(number) is int else value

    return sdf.apply(function)


OPERATIONS = [
    _filter, _by_column, _arithmetic, _columns, _update, _drop, _contains, _expand, _metadata, _context,
    _time_and_headers, _branch, _no_dict, _shared, _itself, _no_json,
]  # fmt: skip

_USUAL = st.dictionaries(st.sampled_from("ab"), st.integers(-1, 4) | st.none() | st.text(max_size=2))
_RECORDS = st.one_of(_USUAL.map(json.dumps).map(str.encode), odd_json.RECORDS)


@given(
    st.lists(st.sampled_from(OPERATIONS), max_size=4),
    odd_json.batches(_RECORDS).map(
        lambda batches: [[replace(each, of_partition=0) for each in some] for some in batches]
    ),
    st.sampled_from([Table(), Table(("year", "a")), Table(metadata=("__offset", "__timestamp", "__headers"))]),
)
def test_rows_bad_records_and_calls_are_the_same(
    operations: list[Any], batches: list[list[KafkaMessage]], table: Table
) -> None:
    of_loop, of_quixstreams = Calls(), Calls()
    limits = replace(UNBOUNDED, max_record_bytes=1_000)
    built = _transform(operations, of_loop)(stateless_dataframe())
    run = Transformer(_topic(), built, limits, values_are_json=True, keys_are_text=True, clock=Clock()).run
    steps = [StagingStep(table, at_once=at_once, few=1, read=row_of) for at_once in (True, False)]
    for batch in batches:
        rows, bad = _by_quixstreams(_transform(operations, of_quixstreams), batch)
        done = run(batch, room=10**9, until=1e9)
        assert done.messages == len(batch)
        assert repr([each.row() for each in done.texts] or done.rows) == repr(rows)
        assert repr([each.rejected for each in done.refusals]) == repr(bad)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "staged.parquet"
            for_steps = zip(steps, (done.texts or done.rows, rows), strict=True)
            one, other = (outcome_of(step.stage_batch(_batch(some), path), step.schema) for step, some in for_steps)
            assert one == other
    assert of_loop.count == of_quixstreams.count


def _batch(rows: Sequence[RowMessage | Row]) -> Batch:
    tp = TopicPartition("sensors", 0)
    texts: list[Message] = [each for each in rows if isinstance(each, RowMessage)]
    objects = [each for each in rows if isinstance(each, Row)]
    return Batch((part(tp, 0, 10**6),), (objects,), (texts,))


def _transform(operations: Sequence[Callable[[Any, Calls], Any]], calls: Calls) -> Transform:
    def transform(sdf: StreamingDataFrame) -> StreamingDataFrame:
        for operation in operations:
            sdf = operation(sdf, calls)
        return sdf

    return transform


def _topic() -> Topic:
    key = KeyDeserializer(new_deserializer("str"))
    return Topic("sensors", value_deserializer=new_deserializer("json"), key_deserializer=key)


def _by_quixstreams(transform: Transform, messages: Sequence[KafkaMessage]) -> Outcome:
    bench = Bench()
    callbacks = Callbacks(bench.current)
    callbacks.sink = bench.sink
    application = Application(
        broker_address="127.0.0.1:9",
        consumer_group="group",
        loglevel=None,
        broker_availability_timeout=0,
        **callbacks.arguments({}),
    )
    topic, waiting = _topic(), list(messages)
    bench.current.watch([topic], topic.name)
    dataframe = application.dataframe(topic)
    callbacks.notice_records(dataframe)
    built = transform(dataframe)

    def add(value: Any, key: Any, timestamp: int, headers: Any) -> None:
        context = message_context()
        bench.sink.add(value, key, timestamp, headers, context.topic, context.partition, context.offset)

    built.apply(add, metadata=True)  # as a sink, without a checkpoint
    composed = dataframe.compose()
    quixstreams: Any = application
    quixstreams._consumer._topics[topic.name] = topic
    quixstreams._consumer._poll_unbuffered = lambda timeout: waiting.pop(0)  # noqa: ARG005 - its name
    quixstreams._producer.poll = lambda _: None
    quixstreams._processing_context.store_offset = lambda **_: None
    while waiting:
        quixstreams._process_message(composed)
    bench.sink.flush()
    rows = [row for piece in bench.member.pieces for row in piece.rows]  # by partition
    offset = attrgetter("offset")
    return sorted(rows, key=offset), sorted(bench.member.rejected, key=offset)
