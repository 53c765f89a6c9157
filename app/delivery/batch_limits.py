"""Decides when a batch ends. Defines the limits of a batch in rows, bytes, files and seconds.

The pipeline receives records as they arrive. When the records use an eighth of ``max_buffer_bytes``, or the batch
ends, the thread "stage" converts the records and appends the rows to a staged file. The batch ends if a condition of
``ENDS`` is true, or if the next records do not fit. A flush ends the batch too: the reason is ``checkpoint`` or
``buffer full``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Self

_MB = 2**20
_PORTIONS_IN_BUFFER = 8  # so that one portion is converted while the next portions arrive
_MAX_REJECTED_BYTES = 16 * _MB
_MAX_FILES = 10_000  # each file needs some ms in Spark, and a line in a journal
_MAX_STAGED_BYTES = 256 * _MB
_MAX_STAGED_BYTES_IN_MEMORY = 32 * _MB
_SHARE_OF_DISK = 8


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of the batch in progress."""

    staged_bytes: int = 0  # size of the rows in Arrow's memory; the staged file has about this size
    shared_bytes: int = 0  # size of the staged files of all tables, see ``Buffer.shared_bytes``
    sort_bytes: int = 0  # estimated memory of the rows while Spark sorts them
    rejected_bytes: int = 0  # estimated memory of the rejected records
    files: int = 0  # expected number of files
    records: int = 0  # number of records, including records that are not converted yet
    is_ahead: bool = False  # records were read that the log does not contain yet, even if they give no rows


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a batch; see the module's docstring."""

    batch_size: int  # minimum number of rows of all partitions that ends a batch
    target_file_bytes: int  # minimum size of files that are written early; with 0, files of any size are written early
    gather_seconds: float  # minimum time between two batches that end because of their number of rows
    max_record_bytes: int  # size of the largest message that becomes a row
    max_buffer_bytes: int  # maximum size of the rows in Python's memory
    commit_seconds: float = inf  # maximum duration of a batch; infinite if quixstreams requests commits
    max_staged_bytes: int = _MAX_STAGED_BYTES
    max_sort_bytes: int = _MAX_STAGED_BYTES  # maximum memory of Spark's sort; a sort on disk loses the order of rows

    def fitted(self, *, disk_bytes: int, is_disk_memory: bool) -> Self:
        """Return the limits for a scratch folder on a disk of this size.

        The folder may contain the staged files of three batches, and files that Spark wrote for three other batches. If
        the disk is a tmpfs, its files use the container's memory.
        """
        largest = _MAX_STAGED_BYTES_IN_MEMORY if is_disk_memory else _MAX_STAGED_BYTES
        return replace(self, max_staged_bytes=min(largest, disk_bytes // _SHARE_OF_DISK))

    def is_full(self, held_bytes: int) -> bool:
        """Whether the rows in Python's memory reach the limit. ``held_bytes`` includes rows in the pipeline."""
        return held_bytes >= self.max_buffer_bytes

    def is_portion(self, waiting_bytes: int) -> bool:
        return waiting_bytes >= self.max_buffer_bytes // _PORTIONS_IN_BUFFER


@dataclass(frozen=True, slots=True)
class Situation:
    """The batch in progress, and all other values that decide when the batch ends.

    Attributes:
        is_writer_idle: Whether no batch waits for Spark.
        is_due: Whether ``commit_seconds`` have passed.
        stored_share: Size of the last batch's files, divided by its staged file's size; ``None`` without a batch.
        seconds: Number of seconds in which records were gathered while Spark was idle.
        quiet: Seconds since the last record arrived.
    """

    batch: BatchSize
    limits: BatchLimits
    is_writer_idle: bool
    is_due: bool
    stored_share: float | None
    seconds: float
    quiet: float

    @property
    def file_bytes(self) -> float:
        """The expected size of each file of the batch; 0 if the size is unknown or not needed."""
        is_known = self.limits.target_file_bytes and self.batch.files and self.stored_share is not None
        return self.batch.staged_bytes * (self.stored_share or 0.0) / self.batch.files if is_known else 0.0

    @property
    def has_rows(self) -> bool:
        return self.batch.records >= self.limits.batch_size


# Conditions and reasons. The first condition that is true decides. If its reason is ``None``, the batch continues.
ENDS: Final[Sequence[tuple[Callable[[Situation], bool], Callable[[Situation], str | None]]]] = (
    (
        lambda now: (
            max(now.batch.staged_bytes, now.batch.shared_bytes) >= now.limits.max_staged_bytes
            or now.batch.sort_bytes >= now.limits.max_sort_bytes
        ),
        lambda now: f"{now.batch.staged_bytes // _MB:,} MB staged",
    ),
    (lambda now: now.batch.rejected_bytes >= _MAX_REJECTED_BYTES, lambda _: "many records for the dead letter"),
    (lambda now: now.batch.files >= _MAX_FILES, lambda now: f"{now.batch.files:,} files"),
    (lambda now: not now.is_writer_idle, lambda _: None),  # the batch grows while Spark is busy
    (lambda now: now.is_due, lambda _: "checkpoint"),
    (
        lambda now: now.file_bytes >= now.limits.target_file_bytes > 0,
        lambda now: f"files of {now.file_bytes / _MB:.1f} MB",
    ),
    (
        lambda now: now.has_rows and not now.limits.target_file_bytes and now.seconds >= now.limits.gather_seconds,
        lambda now: f"{now.batch.records:,} rows",
    ),
    (
        lambda now: now.has_rows and now.quiet >= now.limits.gather_seconds,
        lambda now: f"{now.batch.records:,} rows, and the topic is quiet",
    ),
)


class BatchEnds:
    """Decides when the batch in progress ends. Only one thread may use an instance; any thread may read ``due_in``.

    The first batch is due after ``phase * commit_seconds``. With different phases, tables are due one after another.
    """

    def __init__(self, limits: BatchLimits, clock: Callable[[], float], phase: float = 1.0) -> None:
        self._limits = limits
        self._clock = clock
        self._is_due = False
        self._is_idle = True
        self._due_at = clock() + limits.commit_seconds * phase
        self._since = self._quiet_since = clock()

    @property
    def due_in(self) -> float:
        """Seconds until the batch is due. The number is negative if the batch is overdue."""
        seconds = self._due_at - self._clock()
        return seconds % self._limits.commit_seconds if self._is_idle and seconds < 0 else seconds

    def resume(self) -> None:
        """Continue after a pause without records. The pause does not change when the next batch is due."""
        self._due_at = self._clock() + self.due_in
        self._is_idle = False

    def pause(self) -> None:
        self._is_idle = True

    def came(self) -> None:
        self._quiet_since = self._clock()

    def ended(self) -> None:
        self._is_due = False
        self._since = self._clock()

    def reason(self, batch: BatchSize, *, is_writer_idle: bool, stored_share: float | None) -> str | None:
        """Return the reason why the batch ends now; ``None`` if it continues. ``Situation`` describes the arguments."""
        now = self._clock()
        if now >= self._due_at:
            self._due_at = now + self._limits.commit_seconds
            self._is_due = batch.is_ahead
        if not is_writer_idle:
            self._since = now
        seconds, quiet = now - self._since, now - self._quiet_since
        situation = Situation(batch, self._limits, is_writer_idle, self._is_due, stored_share, seconds, quiet)
        return next((reason(situation) for is_met, reason in ENDS if is_met(situation)), None)
