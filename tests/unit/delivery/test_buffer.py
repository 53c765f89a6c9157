"""What all tables of a process share: room for their records, and for their staged files."""

from dataclasses import replace

from app.delivery.buffer import Buffer
from tests.support.batches import UNBOUNDED


def test_all_tables_hold_records_in_one_buffer_until_they_leave_it() -> None:
    buffer = Buffer(replace(UNBOUNDED, max_buffer_bytes=100))
    assert buffer.room == 100
    orders, payments = buffer.new_share(), buffer.new_share()
    orders.hold(60)
    payments.hold(40)
    assert (buffer.room, buffer.is_full) == (0, True)
    buffer.leave(orders)
    orders.hold(-30)  # of a thread that comes late
    assert (buffer.room, buffer.is_full) == (60, False)
    payments.hold(-40)
    assert buffer.room == 100


def test_the_larger_tables_count_what_is_staged_of_all_and_one_table_what_is_its_own() -> None:
    buffer = Buffer(UNBOUNDED)
    buffer.new_share().staged_bytes = 100
    assert buffer.shared_bytes(100) == 100
    buffer.new_share().staged_bytes = 10
    assert buffer.shared_bytes(10) == 10
    assert buffer.shared_bytes(100) == 110
