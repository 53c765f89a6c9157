"""Decides when the waiting rows go to the pipeline, and when and why they end a batch there.

The pipeline gathers the portions of a batch on disk. A *portion* goes to it as soon as the waiting rows take an eighth
of ``max_buffer_bytes``, whatever else holds. The batch ends and is written:

| asked by | condition, the first that holds | reason |
|---|---|---|
| each turn of the consumer's loop | a batch still waits for the writer | not ended: the next batch grows meanwhile |
| | a checkpoint is due | ``checkpoint`` |
| | ``batch_size`` rows, gathered for ``gather_seconds``, if files of any size are wanted | ``3,000 rows`` |
| | ``batch_size`` rows, and no row has come for ``gather_seconds`` | ``3,000 rows, and no more come`` |
| a flush | the buffer is full | ``buffer full`` |
| | always | ``checkpoint`` |

``app.pipeline.close_rules`` has what ends a batch besides.
"""

from dataclasses import dataclass

_PORTIONS_IN_BUFFER = 8  # so that one is converted while the next ones come in


@dataclass(frozen=True, slots=True)
class SealRules:
    """The rules of the table above; each returns the reason to end the batch, which is logged with it, or ``None``.

    The *waiting* rows are in the sink's buffer. The *held* bytes also count the portions that the pipeline has not
    converted yet. The *gathered* rows are all of the current batch.

    Attributes:
        batch_size: rows that are worth a batch, over all partitions.
        max_buffer_bytes: most bytes of rows held in Python.
        gather_seconds: the shortest time between two batches that end for their number of rows.
        in_any_size: whether files are written early whatever their size.
    """

    batch_size: int
    max_buffer_bytes: int
    gather_seconds: float
    in_any_size: bool

    def is_full(self, held_bytes: int) -> bool:
        """Whether the buffer has reached its bound."""
        return held_bytes >= self.max_buffer_bytes

    def is_portion(self, waiting_bytes: int) -> bool:
        """Whether the waiting rows are worth a portion."""
        return waiting_bytes >= self.max_buffer_bytes // _PORTIONS_IN_BUFFER

    def at_turn(
        self,
        *,
        gathered_rows: int,
        is_writer_idle: bool,
        is_checkpoint_due: bool,
        gathered_seconds: float,
        quiet_seconds: float,
    ) -> str | None:
        """The reason to end the batch after a turn of the consumer's loop.

        Args:
            gathered_rows: how many records the batch has.
            is_writer_idle: no batch waits for Spark.
            is_checkpoint_due: offsets are to be committed once the gathered rows are in the lake.
            gathered_seconds: since a batch was last ended, or last waited for Spark.
            quiet_seconds: since the last record came.
        """
        if not is_writer_idle:
            return None
        if is_checkpoint_due:
            return "checkpoint"
        if gathered_rows >= self.batch_size:
            if self.in_any_size and gathered_seconds >= self.gather_seconds:
                return f"{gathered_rows:,} rows"
            if quiet_seconds >= self.gather_seconds:
                return f"{gathered_rows:,} rows, and no more come"
        return None

    def at_flush(self, *, held_bytes: int) -> str:
        """The reason to seal what is left at a flush, which always seals."""
        return "buffer full" if self.is_full(held_bytes) else "checkpoint"
