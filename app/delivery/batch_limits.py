"""Decides when a batch ends, and holds all limits of rows, bytes, files and seconds that this depends on.

Records go to the pipeline as they come. They are converted once they take an eighth of ``max_buffer_bytes``, or once
the batch ends, and are gathered in a staged file. The thread that does this decides: ``ENDS`` has the conditions and
the reasons, which are logged. It also ends a batch before records that do not fit to it. A flush ends it too, with
``checkpoint`` or ``buffer full``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Self

_MB = 2**20
_PORTIONS_IN_BUFFER = 8  # so that one is converted while the next ones come in
_MAX_REJECTED_BYTES = 16 * _MB
_MAX_FILES = 10_000  # each takes Spark some ms, and a line in a journal
_MAX_STAGED_BYTES = 256 * _MB
_MAX_STAGED_BYTES_IN_MEMORY = 32 * _MB
_SHARE_OF_DISK = 8


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of a batch that is gathered."""

    staged_bytes: int = 0  # of the rows in Arrow's memory, and about of the staged file
    shared_bytes: int = 0  # of the staged files of all tables, see ``Buffer.staged``
    sort_bytes: int = 0  # about what the rows take while Spark sorts them
    rejected_bytes: int = 0  # about what the rejected records take in memory
    files: int = 0  # those that the rows will make
    records: int = 0  # with those that are not converted yet
    is_ahead: bool = False  # it says how far partitions were read, if only by records that give no row


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What bounds a batch; see the module."""

    batch_size: int  # rows that are worth a batch, over all partitions
    target_file_bytes: int  # the file size that is worth an early write; with 0, any size is
    gather_seconds: float  # the shortest time between two batches that end for their number of rows
    max_record_bytes: int  # the largest message that becomes a row
    max_buffer_bytes: int  # of rows held in Python
    commit_seconds: float = inf  # how long a batch may be gathered; infinite where quixstreams asks for commits
    max_staged_bytes: int = _MAX_STAGED_BYTES
    max_sort_bytes: int = _MAX_STAGED_BYTES  # in Spark's memory: a sort through the disk loses the order of rows

    def fitted(self, *, disk_bytes: int, is_disk_memory: bool) -> Self:
        """Fits these limits to a machine with this disk for the scratch folder.

        The folder may hold the staged files of three batches at once, and the files that Spark wrote of three others.
        A disk that is memory counts as the container's memory.
        """
        largest = _MAX_STAGED_BYTES_IN_MEMORY if is_disk_memory else _MAX_STAGED_BYTES
        return replace(self, max_staged_bytes=min(largest, disk_bytes // _SHARE_OF_DISK))

    def is_full(self, held_bytes: int) -> bool:
        """Whether the rows in Python reach the limit; ``held_bytes`` counts those that the pipeline holds too."""
        return held_bytes >= self.max_buffer_bytes

    def is_portion(self, waiting_bytes: int) -> bool:
        return waiting_bytes >= self.max_buffer_bytes // _PORTIONS_IN_BUFFER


@dataclass(frozen=True, slots=True)
class Situation:
    """The batch that is gathered, and what its end depends on besides.

    Attributes:
        is_writer_idle: no batch waits for Spark.
        is_due: the time of ``commit_seconds`` is over.
        stored_share: the size of the last batch's files, by that of its staged file; ``None`` before the first batch.
        seconds: how long it has been gathered while Spark had nothing else to do.
        quiet: for how many seconds no record has come.
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
        """The expected size of its files; 0 where it is not known or does not matter."""
        is_known = self.limits.target_file_bytes and self.batch.files and self.stored_share is not None
        return self.batch.staged_bytes * (self.stored_share or 0.0) / self.batch.files if is_known else 0.0

    @property
    def has_rows(self) -> bool:
        return self.batch.records >= self.limits.batch_size


# The first condition that holds decides; its reason is ``None`` where the batch does not end.
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
    (lambda now: not now.is_writer_idle, lambda _: None),  # it grows meanwhile
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
        lambda now: f"{now.batch.records:,} rows, and no more come",
    ),
)


class BatchEnds:
    """Decides when the batch that is gathered ends. For one thread, but for ``due_in``.

    ``phase``: when the first one is due, as a part of ``commit_seconds``; several tables are due one after another.
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
        """Seconds until the batch is due, negative where it is late."""
        left = self._due_at - self._clock()
        return left % self._limits.commit_seconds if self._is_idle and left < 0 else left

    def resume(self) -> None:
        """Look again after a pause without records: the next batch is due as if there had been none."""
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
        """Returns the reason to end the batch now, if there is one; arguments as in ``Situation``."""
        now = self._clock()
        if now >= self._due_at:
            self._due_at = now + self._limits.commit_seconds
            self._is_due = batch.is_ahead
        if not is_writer_idle:
            self._since = now
        seconds, quiet = now - self._since, now - self._quiet_since
        seen = Situation(batch, self._limits, is_writer_idle, self._is_due, stored_share, seconds, quiet)
        return next((reason(seen) for holds, reason in ENDS if holds(seen)), None)
