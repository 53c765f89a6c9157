"""When and why a batch is sealed: each row of the table in ``app.consumer.seal_rules``."""

import pytest

from app.consumer.seal_rules import SealRules

RULES = SealRules(batch_size=3_000, max_buffer_bytes=1_001, gather_seconds=1.0)
IDLE, BUSY = True, False
DUE, NOT_DUE = True, False


@pytest.mark.parametrize(
    ("rows", "size", "is_idle", "is_due", "gathered", "reason"),
    [
        # The buffer is half full: nothing else counts.
        (1, 500, IDLE, NOT_DUE, 0.0, "buffer half full"),
        (1, 500, BUSY, NOT_DUE, 0.0, "buffer half full"),
        (9_000, 2_000, BUSY, DUE, 9.0, "buffer half full"),
        (9_000, 2_000, IDLE, DUE, 9.0, "buffer half full"),
        # A batch waits for the writer: the next one grows.
        (9_000, 499, BUSY, NOT_DUE, 9.0, None),
        (9_000, 499, BUSY, DUE, 9.0, None),
        # A checkpoint is due: the number of rows and the time do not count.
        (1, 1, IDLE, DUE, 0.0, "checkpoint"),
        (9_000, 499, IDLE, DUE, 9.0, "checkpoint"),
        # Enough rows, gathered for long enough.
        (3_000, 499, IDLE, NOT_DUE, 1.0, "3,000 rows waiting, writer idle"),
        (12_345, 499, IDLE, NOT_DUE, 60.0, "12,345 rows waiting, writer idle"),
        (2_999, 499, IDLE, NOT_DUE, 60.0, None),
        (3_000, 499, IDLE, NOT_DUE, 0.999, None),
        (0, 0, IDLE, NOT_DUE, 60.0, None),
    ],
)
def test_at_a_turn_of_the_loop(
    rows: int, size: int, is_idle: bool, is_due: bool, gathered: float, reason: str | None
) -> None:
    found = RULES.at_turn(
        waiting_rows=rows,
        waiting_bytes=size,
        is_writer_idle=is_idle,
        is_checkpoint_due=is_due,
        gathered_seconds=gathered,
    )
    assert found == reason


@pytest.mark.parametrize(
    ("rows", "is_idle", "reason"),
    [(1, IDLE, "buffer full"), (1, BUSY, None), (0, IDLE, None), (0, BUSY, None)],
)
def test_while_the_buffer_is_full(rows: int, is_idle: bool, reason: str | None) -> None:
    assert RULES.while_full(waiting_rows=rows, is_writer_idle=is_idle) == reason


@pytest.mark.parametrize(
    ("held_bytes", "reason"), [(0, "checkpoint"), (1_000, "checkpoint"), (1_001, "buffer full"), (9_000, "buffer full")]
)
def test_a_flush_always_seals(held_bytes: int, reason: str) -> None:
    assert RULES.at_flush(held_bytes=held_bytes) == reason
