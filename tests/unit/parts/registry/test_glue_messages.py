"""What the serializers of AWS Glue write: a header of 18 bytes, and behind it the data, which zlib may have packed."""

import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, cast
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from app.bad_records.refusals import BadRecords
from app.consumer.plain.intake import Intake
from app.delivery.assignment import Assignment, Portion
from app.model import Batch, TopicPartition
from app.parts.avro.avro_messages import AvroMessages
from app.parts.registry.registered_schemas import JsonSchemaMessages, unpacked_size
from app.reason_texts import reason_of
from tests.support.avro import MemoryRegistry, datum, framed, record
from tests.support.batches import part
from tests.support.both_ways import StagingStep, Table, assert_both_agree, messages

FIRST, SECOND = (UUID(f"b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c6{n}") for n in range(2))
READING = record(("ts_ms", "long"), ("x", ["null", "double"]))
LATER = record(("ts_ms", "long"), ("note", "string"))
MEGABYTE = 1 << 20


def plain(version: UUID, data: bytes) -> bytes:
    return b"\3\0" + version.bytes + data


def packed(version: UUID, data: bytes) -> bytes:
    return b"\3\5" + version.bytes + zlib.compress(data)


def avro() -> AvroMessages:
    return AvroMessages(MemoryRegistry({FIRST: READING, SECOND: LATER, 1: READING}).find)


def old(n: int) -> bytes:
    return datum(READING, {"ts_ms": n, "x": n / 2})


def new(n: int) -> bytes:
    return datum(LATER, {"ts_ms": n, "note": "a" * n})


WRONG = [
    *(plain(FIRST, old(1))[:size] for size in (0, 1, 2, 17, 18)),
    b"\2\0" + plain(FIRST, old(1))[2:],
    b"\3\1" + plain(FIRST, old(1))[2:],
    plain(UUID(int=7), old(1)),
    b"\3\5" + FIRST.bytes + old(1),
    packed(FIRST, old(1))[:-1],
    packed(FIRST, b""),
    b"\3\5" + FIRST.bytes,
]


@pytest.mark.parametrize("frame", [plain, packed])
def test_avro_is_read_at_once_also_by_several_schemas(frame: Callable[[UUID, bytes], bytes], tmp_path: Path) -> None:
    batch = messages(*[frame(FIRST, old(n)) for n in range(9)], *[frame(SECOND, new(n)) for n in range(9)])
    step = StagingStep(Table(avro=avro()), at_once=True, few=1)
    step.stage(batch, tmp_path / "staged")  # gives the table its columns
    before = step.reader.reads
    assert len(step.stage(batch, tmp_path / "staged").rejected) == 0
    assert step.reader.reads == before


def test_avro_both_ways() -> None:
    frames = [plain(FIRST, old(2)), packed(FIRST, old(3)), framed(1, old(4)), packed(SECOND, new(5))]
    batches = [messages(*frames * 3), messages(*WRONG, *frames * 3, *WRONG), messages(*frames[1::2] * 5)]
    assert_both_agree(Table(avro=avro()), batches, few=1)


@pytest.mark.parametrize("hive", [(), ("site",)], ids=["no folders", "a folder"])
def test_json_both_ways(hive: tuple[str, ...]) -> None:
    texts = [json.dumps({"ts_ms": n, "site": f"s{n % 2}"}).encode() for n in range(6)]
    frames = [*(plain(FIRST, text) for text in texts), *(packed(SECOND, text) for text in texts), framed(1, texts[0])]
    without_time = [packed(FIRST, b'{"site":"a"}'), plain(FIRST, b'{"site":"b"}')]
    batches = [messages(*frames), messages(*frames[::-1]), messages(*WRONG, *frames), messages(*without_time * 3)]
    assert_both_agree(Table(hive, json_schema=True), batches, few=1)


def test_one_schema_that_records_of_a_batch_name_in_two_ways(tmp_path: Path) -> None:
    by_guid = b"\1" + FIRST.bytes + old(1)
    assert_both_agree(Table(avro=avro()), [messages(plain(FIRST, old(2)), by_guid, plain(FIRST, old(3)))], few=1)


def test_a_field_with_null_is_found_in_what_is_packed() -> None:
    values = [packed(FIRST, b'{"ts_ms":null}')]
    assert JsonSchemaMessages().has_field(values, [None], "ts_ms")
    assert not JsonSchemaMessages().has_field(values, [None], "x")


@pytest.mark.parametrize("raw", WRONG, ids=range(len(WRONG)))
def test_a_message_of_another_form_is_a_bad_record_with_a_reason(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"no schema id|no schema with its id|zlib|does not fit"):
        avro().read(raw, None)


def junk(size: int) -> bytes:
    return Random(1).randbytes(size)  # noqa: S311 - no secret


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """Fails if the block takes more memory than this."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_small_message_does_not_become_a_large_one() -> None:
    for data in (bytes(64 * MEGABYTE), junk(10_000) * 1_700):
        with at_most(48), pytest.raises(ValueError, match="zlib cannot unpack it") as caught:
            avro().read(packed(FIRST, data), None)
        assert "more than 16 MB" in reason_of(caught.value)


SPARSE = record(("ts_ms", "long"), ("zeros", "string"), ("key", ["null", "string"]))


def sparse(n: int, size: int) -> bytes:
    return packed(FIRST, datum(SPARSE, {"ts_ms": n, "zeros": "0" * size, "key": None}))


@pytest.mark.parametrize("size", [10_000, 200_000, 900_000])
def test_sparse_messages_become_rows_and_are_never_many_at_once(tmp_path: Path, size: int) -> None:
    """Zlib packs them 138 to 1,014 times, and Kafka's client gives thousands in one poll."""
    batch = messages(*(sparse(n, size) for n in range(60 * MEGABYTE // size)))
    raw = batch[-1].raw_value
    assert raw
    assert 138 < size / len(raw) < 1_014
    portions: list[Portion] = []
    tp, no_log = TopicPartition("sensors", 0), cast("Any", None)
    intake = Intake(MEGABYTE, BadRecords("fail", print), size_of=unpacked_size)
    intake.take(Assignment([tp], no_log, portions.append), tp, batch, room=10**9, until=1e9)
    step = StagingStep(Table(avro=AvroMessages(MemoryRegistry({FIRST: SPARSE}).find)), at_once=True, few=1)
    moments: list[int] = []
    for number, portion in enumerate(portions):
        [piece] = portion.pieces
        offsets = piece.messages[0].offset(), piece.messages[-1].offset()
        with at_most(8):
            staged = step.stage_batch(Batch((part(tp, *offsets),), ([],), ([*piece.messages],)), tmp_path / f"{number}")
        assert staged.file
        table = pq.read_table(staged.file.path)
        assert table.nbytes < 2 * MEGABYTE
        moments += table["ts_ms"].to_pylist()
    assert moments == [*range(len(batch))]
