"""When and why a batch is sealed: each row of the table in ``app.consumer.seal_rules``."""

import pytest

from app.consumer.seal_rules import SealRules

RULES = SealRules(batch_size=3_000, max_buffer_bytes=8_008, gather_seconds=1.0, in_any_size=False)
IN_ANY_SIZE = SealRules(batch_size=3_000, max_buffer_bytes=8_008, gather_seconds=1.0, in_any_size=True)
IDLE, BUSY = True, False
DUE, NOT_DUE = True, False


@pytest.mark.parametrize(
    ("rules", "rows", "is_idle", "is_due", "gathered", "quiet", "reason"),
    [
        # A batch waits for the writer: the next one grows.
        (IN_ANY_SIZE, 9_000, BUSY, NOT_DUE, 9.0, 9.0, None),
        (RULES, 9_000, BUSY, DUE, 9.0, 9.0, None),
        # A checkpoint is due: the number of rows and the time do not count.
        (RULES, 1, IDLE, DUE, 0.0, 0.0, "checkpoint"),
        (RULES, 9_000, IDLE, DUE, 9.0, 9.0, "checkpoint"),
        # Enough rows, and no more come.
        (RULES, 3_000, IDLE, NOT_DUE, 1.0, 1.0, "3,000 rows, and no more come"),
        (IN_ANY_SIZE, 12_345, IDLE, NOT_DUE, 0.5, 60.0, "12,345 rows, and no more come"),
        (RULES, 2_999, IDLE, NOT_DUE, 60.0, 60.0, None),
        (RULES, 3_000, IDLE, NOT_DUE, 60.0, 0.999, None),
        (RULES, 0, IDLE, NOT_DUE, 60.0, 60.0, None),
        # Enough rows, gathered for long enough, where the size of files does not matter.
        (IN_ANY_SIZE, 3_000, IDLE, NOT_DUE, 1.0, 0.0, "3,000 rows"),
        (IN_ANY_SIZE, 3_000, IDLE, NOT_DUE, 0.999, 0.0, None),
        (IN_ANY_SIZE, 2_999, IDLE, NOT_DUE, 60.0, 0.0, None),
    ],
)
def test_at_a_turn_of_the_loop(
    rules: SealRules, rows: int, is_idle: bool, is_due: bool, gathered: float, quiet: float, reason: str | None
) -> None:
    found = rules.at_turn(
        gathered_rows=rows,
        is_writer_idle=is_idle,
        is_checkpoint_due=is_due,
        gathered_seconds=gathered,
        quiet_seconds=quiet,
    )
    assert found == reason


@pytest.mark.parametrize(("waiting_bytes", "is_portion"), [(0, False), (1_000, False), (1_001, True), (9_000, True)])
def test_what_is_worth_a_portion(waiting_bytes: int, is_portion: bool) -> None:
    assert RULES.is_portion(waiting_bytes) == is_portion


@pytest.mark.parametrize(
    ("held_bytes", "reason"), [(0, "checkpoint"), (8_007, "checkpoint"), (8_008, "buffer full"), (9_000, "buffer full")]
)
def test_a_flush_always_seals(held_bytes: int, reason: str) -> None:
    assert RULES.at_flush(held_bytes=held_bytes) == reason
