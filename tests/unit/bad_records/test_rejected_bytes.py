"""Records that were parsed and refused then: the dead letter gets the bytes of their messages, both ways."""

from pathlib import Path

import pytest

from app.bad_records import dead_letter
from tests.fakes.kafka_message import KafkaMessage
from tests.support.both_ways import MAX_RECORD_BYTES, StagingStep, Table

HEADERS = [("h", b"1"), ("h", b"\xff")]
REFUSED = [
    b"null",
    b' "text" ',
    b"1e2",
    b"[1.50, -0]",
    b'{"ts_ms" : "soon", "x" : 1e2}',
    b'{"ts_ms":true,"x":1.10,"x":18446744073709551617}',
    b'{"p":"\\u0000' + b"l" * 300 + b'","x":1}',
    b'{"x":"' + b"l" * MAX_RECORD_BYTES + b'"}',
    b'{"x"',
    None,
]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("key", [b"k", b"", None])
def test_refused_records_keep_their_bytes_their_headers_and_their_timestamps(
    tmp_path: Path, at_once: bool, key: bytes | None
) -> None:
    step = StagingStep(Table(("year", "p")), at_once=at_once)
    good = KafkaMessage(b'{"ts_ms":1,"p":"a","x":1}', b"k", 0)
    bad = [KafkaMessage(value, key, at + 1, timestamp_ms=0, raw_headers=HEADERS) for at, value in enumerate(REFUSED)]
    staged = step.stage([good, *bad], tmp_path / "staged.parquet")
    [(_, rejected)] = staged.rejected
    dead_letter.write(rejected, tmp_path / "letter.parquet")
    found = [letter.record for letter in dead_letter.read(tmp_path / "letter.parquet")]
    assert [(one.offset, one.value) for one in found] == [(at + 1, value) for at, value in enumerate(REFUSED)]
    assert {(one.key, one.timestamp, tuple(one.headers or ())) for one in found} == {(key, 0, tuple(HEADERS))}
