"""Decides when a batch ends, and holds all limits of rows, bytes, files and seconds that this depends on.

A *portion* goes from the buffer to the pipeline as soon as the waiting rows take an eighth of ``max_buffer_bytes``. The
pipeline gathers the portions of a batch in a staged file. The batch ends and is written:

| after | condition, the first that holds | reason, which is logged |
|---|---|---|
| a turn of the consumer's loop | a batch still waits for the writer | not ended: the next batch grows meanwhile |
| | a checkpoint is due | ``checkpoint`` |
| | ``batch_size`` rows, gathered for ``gather_seconds``, without ``target_file_bytes`` | ``3,000 rows`` |
| | ``batch_size`` rows, and no row has come for ``gather_seconds`` | ``3,000 rows, and no more come`` |
| a flush | the buffer is full | ``buffer full`` |
| | always | ``checkpoint`` |
| a portion | its staged file takes ``max_staged_bytes``, or its rows ``max_sort_bytes`` | ``128 MB staged`` |
| | its rejected records take 16 MB of Python's memory | ``many records for the dead letter`` |
| | it makes 10,000 files | ``10,000 files`` |
| | no batch waits for the writer, and its files are expected to take ``target_file_bytes`` | ``files of 16 MB`` |
| before a portion | the columns have other types | ``a column's type changed`` |
| | it is of another assignment | ``a new assignment of the partitions`` |
| | the scratch folder has no room for it and for the files that Spark writes | ``little room in ...`` |
| | it cannot be converted, and the process ends | ``what came before a failure`` |
"""

from dataclasses import dataclass, replace
from typing import Final, Self

OTHER_OWNER: Final = "a new assignment of the partitions"
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
_SHARE_OF_HEAP = 5
_HEAP_WITHOUT_SORT_MB = 300


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of a batch that is gathered.

    Attributes:
        staged_bytes: of the rows in Arrow's memory, and about of the staged file.
        sort_bytes: about what the rows take while Spark sorts them.
        rejected_bytes: about what the rejected records take in memory.
        files: those that the rows will make.
    """

    staged_bytes: int = 0
    sort_bytes: int = 0
    rejected_bytes: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The rules of the table above; each returns the reason to end the batch, or ``None``.

    Attributes:
        batch_size: rows that are worth a batch, over all partitions.
        target_file_bytes: the file size that is worth an early write; with 0, any size is.
        gather_seconds: the shortest time between two batches that end for their number of rows.
        max_record_bytes: the largest message that becomes a row.
        max_buffer_bytes: most bytes of rows held in Python.
        max_sort_bytes: the most that Spark sorts in memory. A sort through the disk does not keep the order of rows.
    """

    batch_size: int
    target_file_bytes: int
    gather_seconds: float
    max_record_bytes: int
    max_buffer_bytes: int
    max_staged_bytes: int = _MAX_STAGED_BYTES
    max_sort_bytes: int = _MAX_STAGED_BYTES

    def fitted(self, *, heap_mb: int, disk_bytes: int, is_disk_memory: bool) -> Self:
        """Fits these limits to a machine with this heap of Spark and this disk for the scratch folder.

        Spark sorts a batch in 0.6 of its heap without 300 MB; one batch may take a third of that. The scratch folder
        may hold the staged files of three batches at once, and the files that Spark wrote of three others. A disk that
        is memory counts as the container's memory.
        """
        largest = _MAX_STAGED_BYTES_IN_MEMORY if is_disk_memory else _MAX_STAGED_BYTES
        return replace(
            self,
            max_staged_bytes=min(largest, disk_bytes // _SHARE_OF_DISK),
            max_sort_bytes=(heap_mb - _HEAP_WITHOUT_SORT_MB) * _MB // _SHARE_OF_HEAP,
        )

    def is_full(self, held_bytes: int) -> bool:
        """Whether the rows in Python reach the limit; ``held_bytes`` counts those that the pipeline holds too."""
        return held_bytes >= self.max_buffer_bytes

    def is_portion(self, waiting_bytes: int) -> bool:
        """Whether the rows in the sink's buffer are worth a portion."""
        return waiting_bytes >= self.max_buffer_bytes // _PORTIONS_IN_BUFFER

    def room_for(self, portion_bytes: int, staged_bytes: int) -> int:
        """Returns the disk's bytes for these rows, and for the files that Spark writes of them and of three batches."""
        return 2 * portion_bytes + 3 * staged_bytes

    def after_turn(
        self,
        *,
        gathered_rows: int,
        is_writer_idle: bool,
        is_checkpoint_due: bool,
        gathered_seconds: float,
        quiet_seconds: float,
    ) -> str | None:
        """Returns the reason to end the batch after a turn of the consumer's loop.

        Args:
            gathered_rows: of the batch, in the buffer and in the pipeline.
            is_writer_idle: no batch waits for Spark.
            is_checkpoint_due: offsets are to be committed once these rows are in the lake.
            gathered_seconds: since a batch was last ended, or last waited for Spark.
            quiet_seconds: since the last record came.
        """
        if not is_writer_idle:
            return None
        if is_checkpoint_due:
            return "checkpoint"
        if gathered_rows >= self.batch_size:
            if not self.target_file_bytes and gathered_seconds >= self.gather_seconds:
                return f"{gathered_rows:,} rows"
            if quiet_seconds >= self.gather_seconds:
                return f"{gathered_rows:,} rows, and no more come"
        return None

    def at_flush(self, held_bytes: int) -> str:
        """Returns the reason to end the batch at a flush, which always ends it."""
        return "buffer full" if self.is_full(held_bytes) else "checkpoint"

    def after_portion(self, batch: BatchSize, *, is_writer_idle: bool, stored_share: float | None) -> str | None:
        """Returns the reason to end the batch after a portion of it was staged.

        The writer is idle while no batch waits for Spark. ``stored_share`` is the size of the last batch's files by
        that of its staged file; ``None`` before the first batch.
        """
        if batch.staged_bytes >= self.max_staged_bytes or batch.sort_bytes >= self.max_sort_bytes:
            return f"{batch.staged_bytes // _MB:,} MB staged"
        if batch.rejected_bytes >= _MAX_REJECTED_BYTES:
            return "many records for the dead letter"
        if batch.files >= _MAX_FILES:
            return f"{batch.files:,} files"
        if self.target_file_bytes and is_writer_idle and batch.files and stored_share is not None:
            size = batch.staged_bytes * stored_share / batch.files
            if size >= self.target_file_bytes:
                return f"files of {size / _MB:.1f} MB"
        return None
