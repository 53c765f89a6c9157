"""When and why a batch ends that the consumer has not ended: each row of the table in ``app.pipeline.close_rules``."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.pipeline.close_rules import CloseRules

MB = 2**20
RULES = CloseRules(max_staged_bytes=256 * MB, max_sort_bytes=400 * MB, target_file_bytes=16 * MB)


def gathered(staged_mb: int, files: int = 1, rejected_mb: int = 0, sort_mb: int = 0) -> Any:
    return SimpleNamespace(
        staged_bytes=staged_mb * MB, sort_bytes=sort_mb * MB, files=files, rejected_bytes=rejected_mb * MB
    )


@pytest.mark.parametrize(
    ("staged_mb", "files", "rejected_mb", "is_idle", "share", "reason"),
    [
        (256, 1, 0, False, None, "256 MB staged"),
        (300, 1, 99, True, 1.0, "300 MB staged"),
        (255, 1, 16, False, None, "many records for the dead letter"),
        (255, 1, 15, False, 1.0, None),  # a batch waits for the writer
        (255, 1, 15, True, None, None),  # nobody knows yet how much smaller files are
        (160, 1, 0, True, 0.1, "files of 16.0 MB"),
        (250, 1, 0, True, 0.1, "files of 25.0 MB"),
        (160, 2, 0, True, 0.1, None),
        (159, 1, 0, True, 0.1, None),
        (0, 0, 1, True, 0.1, None),
        (1, 10_000, 0, False, None, "10,000 files"),
        (1, 9_999, 0, True, 1.0, None),
    ],
)
def test_after_a_portion(
    staged_mb: int, files: int, rejected_mb: int, is_idle: bool, share: float | None, reason: str | None
) -> None:
    batch = gathered(staged_mb, files, rejected_mb)
    assert RULES.reason(batch, is_writer_idle=is_idle, stored_share=share) == reason


def test_a_batch_ends_before_spark_sorts_it_through_the_disk() -> None:
    assert RULES.reason(gathered(100, sort_mb=399), is_writer_idle=False, stored_share=None) is None
    assert RULES.reason(gathered(100, sort_mb=400), is_writer_idle=False, stored_share=None) == "100 MB staged"


def test_without_a_target_the_consumer_ends_batches() -> None:
    rules = CloseRules(max_staged_bytes=256 * MB, max_sort_bytes=400 * MB, target_file_bytes=0)
    assert rules.reason(gathered(100), is_writer_idle=True, stored_share=1.0) is None
