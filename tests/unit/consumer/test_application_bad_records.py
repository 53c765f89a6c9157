"""Records that cannot become rows on their way through the application: named, put aside, committed."""

import logging
from typing import Any

import pytest

from app.errors import DataError
from app.model import Rejected
from tests.fakes.kafka_message import KafkaMessage
from tests.unit.consumer.application_bench import TOPIC, TP, Bench, record


def test_what_came_before_a_bad_record_is_written_and_committed(bench: Bench) -> None:
    bench.turn(record(0), record(1))
    with pytest.raises(DataError, match=r"reading the record of sensors\[0\] at offset 2: its value is of type str"):
        bench.turn(record(2, "text"))
    assert bench.written == [0, 1]
    assert bench.commits == [{TP: 2}]


def test_no_part_of_a_record_is_written_when_another_part_of_it_is_bad(bench: Bench) -> None:
    bench.turn(record(0))
    bench.transform = lambda value: [value, value, "text"]
    with pytest.raises(DataError, match="at offset 1"):
        bench.turn(record(1))
    assert bench.written == [0]
    assert bench.commits == [{TP: 1}]


def test_a_transform_that_raises_names_the_record(bench: Bench) -> None:
    bench.turn(record(0))
    bench.transform = lambda value: [value["missing"]]
    with pytest.raises(DataError) as raised:
        bench.turn(record(1))
    line = bench.transform.__code__.co_firstlineno
    assert str(raised.value) == (
        "reading the record of sensors[0] at offset 1: transform() raised KeyError('missing') at "
        f"tests/unit/consumer/test_application_bad_records.py:{line}. Correct transform() in app/transform.py"
    )
    assert bench.commits == [{TP: 1}]


def undeserialized(bench: Bench, offset: int) -> bool:
    message: Any = KafkaMessage(b"{", b"\xff", offset, timestamp_ms=1_700_000_000_000, raw_headers=[("h", b"\x00")])
    return bench.application._consuming_failed(ValueError("no JSON"), message, logging.getLogger())


def test_a_record_that_does_not_deserialize_is_named(bench: Bench) -> None:
    with pytest.raises(DataError) as raised:
        undeserialized(bench, 2)
    assert str(raised.value).startswith(
        "reading the record of sensors[0] at offset 2: it does not deserialize: no JSON. "
        "Set KAFKA_VALUE_DESERIALIZER and KAFKA_KEY_DESERIALIZER"
    )
    assert raised.value.record == (TP, 2)


def test_a_record_that_does_not_deserialize_is_put_aside_as_it_came(lenient: Bench) -> None:
    lenient.turn(record(0))
    assert undeserialized(lenient, 1)
    lenient.turn(record(2))
    lenient.checkpoint()
    (batch,) = lenient.pipeline.batches
    assert lenient.written == [0, 2]
    assert batch.rejected == (
        Rejected(
            TP,
            1,
            1_700_000_000_000,
            b"\xff",
            b"{",
            [("h", b"\x00")],
            "it does not deserialize: no JSON",
        ),
    )
    assert lenient.commits == [{TP: 3}]
    assert "sensors[0] at offset 1 goes to the dead letter: it does not deserialize: no JSON" in lenient.reported[0]


def test_a_bad_record_at_the_end_of_the_topic_is_committed_too(lenient: Bench) -> None:
    """The framework itself does not: it would come again after each restart."""
    assert undeserialized(lenient, 7)
    lenient.checkpoint()
    assert lenient.commits == [{TP: 8}]
    assert [part.offsets.last for part in lenient.pipeline.batches[0].parts] == [7]


def test_a_bad_record_that_comes_again_by_a_slip_of_the_client_is_put_aside_once(lenient: Bench) -> None:
    lenient.turn(record(0))
    assert undeserialized(lenient, 1)
    assert undeserialized(lenient, 1)
    lenient.checkpoint()
    assert len(lenient.reported) == 1
    assert [one.offset for batch in lenient.pipeline.batches for one in batch.rejected] == [1]


def test_a_record_whose_transform_fails_half_way_is_put_aside_as_a_whole(lenient: Bench) -> None:
    lenient.transform = lambda value: [value, value] if value["n"] != 1 else [value, value, "text"]
    lenient.turn(record(0), record(1), record(2))
    lenient.checkpoint()
    assert lenient.written == [0, 0, 2, 2]
    (rejected,) = lenient.pipeline.batches[0].rejected
    assert (rejected.offset, rejected.value, rejected.key) == (1, {"n": 1}, "key")
    assert rejected.reason == "its value is of type str, and a row needs an object with fields"
    assert lenient.commits == [{TP: 3}]


def test_other_records_of_the_same_message_are_kept(lenient: Bench) -> None:
    """A deserializer may make several records of one message; they share its offset."""
    several = [record(5, {"n": 1}), record(5, {"n": 2}), record(5, {"n": 3})]
    lenient.transform = lambda value: [value] if value["n"] != 2 else [value["missing"]]
    line = lenient.transform.__code__.co_firstlineno
    lenient.records.append(several)  # type: ignore[arg-type]
    lenient.application._process_message({TOPIC: lenient._dataframe})
    lenient.checkpoint()
    (batch,) = lenient.pipeline.batches
    assert [row.value["n"] for row in batch.rows[0]] == [1, 3]
    assert [(one.offset, one.value, one.reason) for one in batch.rejected] == [
        (
            5,
            {"n": 2},
            f"transform() raised KeyError('missing') at tests/unit/consumer/test_application_bad_records.py:{line}",
        )
    ]


def test_a_message_without_a_timestamp_has_none_in_the_dead_letter(lenient: Bench) -> None:
    lenient.transform = lambda value: [value["missing"]]
    without = record(0)
    without.timestamp = -1
    lenient.turn(without)
    lenient.checkpoint()
    assert [one.timestamp for one in lenient.pipeline.batches[0].rejected] == [None]
