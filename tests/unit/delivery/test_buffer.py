"""What all tables of a process share: room for their records, and for their staged files."""

from dataclasses import replace

from app.delivery.buffer import Buffer
from tests.support.batches import UNBOUNDED


def test_all_tables_hold_records_in_one_buffer() -> None:
    buffer = Buffer(replace(UNBOUNDED, max_buffer_bytes=100))
    assert buffer.room == 100
    buffer.hold(60)
    buffer.hold(40)
    assert (buffer.room, buffer.is_full) == (0, True)
    buffer.hold(-60)
    assert (buffer.room, buffer.is_full) == (60, False)


def test_the_larger_tables_count_what_is_staged_of_all_and_one_table_what_is_its_own() -> None:
    buffer = Buffer(UNBOUNDED)
    assert buffer.staged("orders", 100) == 100
    assert buffer.staged("payments", 10) == 10
    assert buffer.staged("orders", 100) == 110
    assert buffer.staged("returns", 55) == 165
    assert buffer.staged("orders", 0) == 0
    assert buffer.staged("returns", 55) == 65
