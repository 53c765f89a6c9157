"""When and why a batch ends: each row of the tables in ``app.delivery.batch_limits``."""

from dataclasses import replace
from math import inf

import pytest

from app.delivery.batch_limits import BatchEnds, BatchLimits, BatchSize
from tests.fakes.clock import Clock

MB = 2**20
LIMITS = BatchLimits(
    batch_size=3_000,
    target_file_bytes=16 * MB,
    gather_seconds=1.0,
    max_record_bytes=MB,
    max_buffer_bytes=8_008,
    max_staged_bytes=256 * MB,
    max_sort_bytes=400 * MB,
)
ANY_SIZE = replace(LIMITS, target_file_bytes=0)
IDLE, BUSY = True, False
NOT_DUE, DUE = inf, 60.0


def rows(number: int) -> BatchSize:
    return BatchSize(records=number, files=1, is_ahead=True)


@pytest.mark.parametrize(
    ("limits", "size", "is_idle", "commit_seconds", "gathered", "quiet", "reason"),
    [
        # A batch waits for the writer: the next one grows.
        (ANY_SIZE, rows(9_000), BUSY, NOT_DUE, 9.0, 9.0, None),
        (LIMITS, rows(9_000), BUSY, DUE, 9.0, 9.0, None),
        # A checkpoint is due: the number of rows and the time do not count, but there is something to commit.
        (LIMITS, rows(1), IDLE, DUE, 0.0, 0.0, "checkpoint"),
        (LIMITS, rows(9_000), IDLE, DUE, 9.0, 9.0, "checkpoint"),
        (LIMITS, BatchSize(is_ahead=True), IDLE, DUE, 0.0, 0.0, "checkpoint"),
        (LIMITS, BatchSize(), IDLE, DUE, 9.0, 9.0, None),
        # Enough rows, and no more come.
        (LIMITS, rows(3_000), IDLE, NOT_DUE, 1.0, 1.0, "3,000 rows, and the topic is quiet"),
        (ANY_SIZE, rows(12_345), IDLE, NOT_DUE, 0.5, 60.0, "12,345 rows, and the topic is quiet"),
        (LIMITS, rows(2_999), IDLE, NOT_DUE, 60.0, 60.0, None),
        (LIMITS, rows(3_000), IDLE, NOT_DUE, 60.0, 0.999, None),
        # Enough rows, gathered for long enough, where the size of files does not matter.
        (ANY_SIZE, rows(3_000), IDLE, NOT_DUE, 1.0, 0.0, "3,000 rows"),
        (ANY_SIZE, rows(3_000), IDLE, NOT_DUE, 0.999, 0.0, None),
        (ANY_SIZE, rows(2_999), IDLE, NOT_DUE, 60.0, 0.0, None),
    ],
)
def test_by_the_time(
    limits: BatchLimits,
    size: BatchSize,
    is_idle: bool,
    commit_seconds: float,
    gathered: float,
    quiet: float,
    reason: str | None,
) -> None:
    clock = Clock()
    ends = BatchEnds(replace(limits, commit_seconds=commit_seconds), clock)
    now = clock.now + 60
    clock.now = now - quiet
    ends.came()
    clock.now = now - gathered
    ends.ended()
    clock.now = now
    assert ends.reason(size, is_writer_idle=is_idle, stored_share=1.0) == reason


@pytest.mark.parametrize(
    ("size", "is_idle", "share", "reason"),
    [
        (BatchSize(staged_bytes=256 * MB), BUSY, None, "256 MB staged"),
        (BatchSize(staged_bytes=300 * MB, rejected_bytes=99 * MB), IDLE, 1.0, "300 MB staged"),
        (BatchSize(staged_bytes=100 * MB, sort_bytes=400 * MB), BUSY, None, "100 MB staged"),
        (BatchSize(staged_bytes=20 * MB, shared_bytes=256 * MB), BUSY, None, "20 MB staged"),
        (BatchSize(staged_bytes=255 * MB, sort_bytes=399 * MB), BUSY, None, None),
        (BatchSize(rejected_bytes=16 * MB), BUSY, None, "many records for the dead letter"),
        (BatchSize(rejected_bytes=16 * MB - 1), IDLE, 1.0, None),
        (BatchSize(staged_bytes=MB, files=10_000), BUSY, None, "10,000 files"),
        (BatchSize(staged_bytes=MB, files=9_999), IDLE, 1.0, None),
        (BatchSize(staged_bytes=160 * MB, files=1), IDLE, 0.1, "files of 16.0 MB"),
        (BatchSize(staged_bytes=250 * MB, files=1), IDLE, 0.1, "files of 25.0 MB"),
        (BatchSize(staged_bytes=160 * MB, files=2), IDLE, 0.1, None),
        (BatchSize(staged_bytes=255 * MB, files=1), BUSY, 1.0, None),  # a batch waits for the writer
        (BatchSize(staged_bytes=255 * MB, files=1), IDLE, None, None),  # no batch has shown how small files get
    ],
)
def test_by_the_size(size: BatchSize, is_idle: bool, share: float | None, reason: str | None) -> None:
    assert BatchEnds(LIMITS, Clock()).reason(size, is_writer_idle=is_idle, stored_share=share) == reason


def test_without_a_target_no_batch_ends_for_the_size_of_its_files() -> None:
    size = BatchSize(staged_bytes=100 * MB, files=1)
    assert BatchEnds(ANY_SIZE, Clock()).reason(size, is_writer_idle=IDLE, stored_share=1.0) is None


def test_a_batch_that_is_due_while_another_waits_for_the_writer_ends_after_that_and_once() -> None:
    clock = Clock()
    ends = BatchEnds(replace(LIMITS, commit_seconds=5.0), clock)
    ends.resume()
    clock.advance(6)
    assert ends.due_in == -1
    found = [ends.reason(rows(1), is_writer_idle=is_idle, stored_share=None) for is_idle in (BUSY, IDLE)]
    assert found == [None, "checkpoint"]
    ends.ended()
    assert ends.reason(rows(1), is_writer_idle=IDLE, stored_share=None) is None
    assert ends.due_in == 5


@pytest.mark.parametrize(("waiting_bytes", "is_portion"), [(1_000, False), (1_001, True)])
def test_an_eighth_of_the_buffer_is_a_portion(waiting_bytes: int, is_portion: bool) -> None:
    assert LIMITS.is_portion(waiting_bytes) == is_portion


@pytest.mark.parametrize(
    ("disk_mb", "is_memory", "staged_mb"), [(100_000, False, 256), (100_000, True, 32), (800, False, 100)]
)
def test_limits_of_the_machine(disk_mb: int, is_memory: bool, staged_mb: int) -> None:
    fitted = LIMITS.fitted(disk_bytes=disk_mb * MB, is_disk_memory=is_memory)
    assert fitted.max_staged_bytes // MB == staged_mb


def test_a_batch_that_begins_after_a_pause_is_due_as_if_there_had_been_none() -> None:
    clock = Clock()
    ends = BatchEnds(replace(LIMITS, commit_seconds=5.0), clock)
    clock.advance(13)
    assert ends.due_in == 2
    ends.resume()
    assert ends.due_in == 2
    clock.advance(1)
    assert ends.reason(BatchSize(is_ahead=True), is_writer_idle=True, stored_share=None) is None
    clock.advance(1)
    assert ends.reason(BatchSize(is_ahead=True), is_writer_idle=True, stored_share=None) == "checkpoint"
