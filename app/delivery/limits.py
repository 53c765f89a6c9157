"""Decides when a batch ends, and holds all limits of rows, bytes, files and seconds that this depends on.

Records go to the pipeline as they come. They are converted once they take an eighth of ``max_buffer_bytes``, or once
the batch ends, and are gathered in a staged file. The thread that does this decides. It ends the batch after

| condition, the first that holds | reason, which is logged |
|---|---|
| its staged file takes ``max_staged_bytes``, or its rows ``max_sort_bytes`` | ``128 MB staged`` |
| its rejected records take 16 MB of Python's memory | ``many records for the dead letter`` |
| it makes 10,000 files | ``10,000 files`` |
| a batch still waits for Spark | not ended: the batch grows meanwhile |
| ``commit_seconds`` | ``checkpoint`` |
| its files are expected to take ``target_file_bytes`` | ``files of 16 MB`` |
| ``batch_size`` records, gathered for ``gather_seconds``, without ``target_file_bytes`` | ``3,000 rows`` |
| ``batch_size`` records, and none has come for ``gather_seconds`` | ``3,000 rows, and no more come`` |

A flush ends it with ``checkpoint``, or ``buffer full``. It also ends before records that do not fit to it:

| condition | reason |
|---|---|
| the columns have other types | ``a column's type changed`` |
| the scratch folder has no room for them and for the files that Spark writes | ``little room in ...`` |
| they cannot be converted, and the process ends | ``what came before a failure`` |
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Self

OTHER_COLUMNS: Final = "a column's type changed"
LITTLE_ROOM: Final = "little room in the temporary folder"
BEFORE_FAILURE: Final = "what came before a failure"

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

    def at_flush(self, held_bytes: int) -> str:
        """Returns the reason to end the batch at a flush, which always ends it."""
        return "buffer full" if self.is_full(held_bytes) else "checkpoint"


class BatchEnds:
    """Decides when the batch that is gathered ends. For one thread, but for ``due_in``."""

    def __init__(self, limits: BatchLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._is_due = False
        self._due_at = clock() + limits.commit_seconds
        self._since = self._quiet_since = clock()

    @property
    def due_in(self) -> float:
        """Seconds until the batch is due, negative where it is late."""
        return self._due_at - self._clock()

    def came(self) -> None:
        self._quiet_since = self._clock()

    def ended(self) -> None:
        self._is_due = False
        self._since = self._clock()

    def reason(self, batch: BatchSize, *, is_writer_idle: bool, stored_share: float | None) -> str | None:
        """Returns the reason to end the batch now, if there is one; ``is_writer_idle``: no batch waits for Spark.

        ``stored_share`` is the size of the last batch's files, by that of its staged file; ``None`` before the first
        batch.
        """
        limits, now = self._limits, self._clock()
        if now >= self._due_at:
            self._due_at = now + limits.commit_seconds
            self._is_due = batch.is_ahead
        if batch.staged_bytes >= limits.max_staged_bytes or batch.sort_bytes >= limits.max_sort_bytes:
            return f"{batch.staged_bytes // _MB:,} MB staged"
        if batch.rejected_bytes >= _MAX_REJECTED_BYTES:
            return "many records for the dead letter"
        if batch.files >= _MAX_FILES:
            return f"{batch.files:,} files"
        if not is_writer_idle:
            self._since = now
            return None
        if self._is_due:
            return "checkpoint"
        return self._worth_writing(batch, stored_share, now)

    def _worth_writing(self, batch: BatchSize, stored_share: float | None, now: float) -> str | None:
        limits = self._limits
        if limits.target_file_bytes and batch.files and stored_share is not None:
            size = batch.staged_bytes * stored_share / batch.files
            if size >= limits.target_file_bytes:
                return f"files of {size / _MB:.1f} MB"
        if batch.records >= limits.batch_size:
            if not limits.target_file_bytes and now - self._since >= limits.gather_seconds:
                return f"{batch.records:,} rows"
            if now - self._quiet_since >= limits.gather_seconds:
                return f"{batch.records:,} rows, and no more come"
        return None
