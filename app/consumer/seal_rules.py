"""Decides when and why the waiting rows are sealed into a batch, which the pipeline then writes.

| asked by | condition, the first that holds | reason |
|---|---|---|
| each turn of the consumer's loop | the waiting rows take half of ``max_buffer_bytes`` | ``buffer half full`` |
| | a batch still waits for the writer | not sealed: the next batch grows meanwhile |
| | a checkpoint is due | ``checkpoint`` |
| | ``batch_size`` rows wait, gathered for ``gather_seconds`` | ``3,000 rows waiting, writer idle`` |
| a turn with a full buffer | rows wait, and no batch waits for the writer | ``buffer full`` |
| a flush | the buffer is full | ``buffer full`` |
| | always | ``checkpoint`` |

Under load batches thus grow instead of multiplying. Spark's fixed cost for each job and each file is spread over more
rows.
"""

from dataclasses import dataclass

_BATCHES_IN_BUFFER = 2  # so that one is converted while the next comes in


@dataclass(frozen=True, slots=True)
class SealRules:
    """The rules of the table above; each returns the reason to seal, which is logged with the batch, or ``None``.

    The *waiting* rows are in the sink's buffer. The *held* bytes also count the batches that the pipeline has not
    converted yet.

    Attributes:
        batch_size: rows that are worth a batch, over all partitions.
        max_buffer_bytes: most bytes of rows held in Python.
        gather_seconds: the shortest time between two batches that are sealed for their number of rows.
    """

    batch_size: int
    max_buffer_bytes: int
    gather_seconds: float

    def is_full(self, held_bytes: int) -> bool:
        """Whether the buffer has reached its bound."""
        return held_bytes >= self.max_buffer_bytes

    def at_turn(
        self,
        *,
        waiting_rows: int,
        waiting_bytes: int,
        is_writer_idle: bool,
        is_checkpoint_due: bool,
        gathered_seconds: float,
    ) -> str | None:
        """The reason to seal after a turn of the consumer's loop.

        Args:
            waiting_rows: how many records are in the buffer.
            waiting_bytes: what they take in Python.
            is_writer_idle: no batch waits for Spark.
            is_checkpoint_due: offsets are to be committed once the waiting rows are in the lake.
            gathered_seconds: since a batch was last sealed, or last waited for Spark.
        """
        if waiting_bytes >= self.max_buffer_bytes // _BATCHES_IN_BUFFER:
            return "buffer half full"
        if not is_writer_idle:
            return None
        if is_checkpoint_due:
            return "checkpoint"
        if waiting_rows >= self.batch_size and gathered_seconds >= self.gather_seconds:
            return f"{waiting_rows:,} rows waiting, writer idle"
        return None

    def while_full(self, *, waiting_rows: int, is_writer_idle: bool) -> str | None:
        """The reason to seal at a turn that consumes nothing, because the buffer is full."""
        return "buffer full" if waiting_rows and is_writer_idle else None

    def at_flush(self, *, held_bytes: int) -> str:
        """The reason to seal what is left at a flush, which always seals."""
        return "buffer full" if self.is_full(held_bytes) else "checkpoint"
