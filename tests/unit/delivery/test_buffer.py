"""What all tables of a process share: room for their records, and for their staged files."""

from dataclasses import replace

import pytest

from app.delivery.runtime import Buffer
from tests.support.batches import UNBOUNDED


def test_all_tables_hold_records_in_one_buffer_until_they_leave_it() -> None:
    buffer = Buffer(replace(UNBOUNDED, max_buffer_bytes=100))
    assert buffer.room == 100
    orders, payments = buffer.new_share(), buffer.new_share()
    orders.hold(60)
    payments.hold(40)
    assert (buffer.room, buffer.is_full) == (0, True)
    buffer.end(orders)
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


def test_a_flush_always_ends_the_batch() -> None:
    buffer = Buffer(replace(UNBOUNDED, max_buffer_bytes=100))
    assert buffer.flush_reason == "checkpoint"
    buffer.new_share().hold(100)
    assert buffer.flush_reason == "buffer full"


@pytest.mark.parametrize("is_shared", [True, False])
def test_half_of_it_is_enough_for_one_of_several_tables(is_shared: bool) -> None:
    buffer = Buffer(replace(UNBOUNDED, max_buffer_bytes=100), is_shared=is_shared)
    orders, payments = buffer.new_share(), buffer.new_share()
    orders.hold(49)
    payments.hold(1)
    assert buffer.is_crowded
    assert not buffer.is_crowded_by(orders)
    orders.hold(1)
    assert (buffer.is_crowded_by(orders), buffer.is_crowded_by(payments)) == (is_shared, False)
