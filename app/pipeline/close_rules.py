"""Decides when the batch that is being gathered ends, though the consumer has not asked for it.

| condition, after each portion | reason |
|---|---|
| its staged file takes ``max_staged_bytes``, or its rows ``max_sort_bytes`` in Spark's sort | ``128 MB staged`` |
| it makes 10,000 files | ``10,000 files`` |
| its rejected records take 16 MB of Python's memory | ``many records for the dead letter`` |
| no batch waits for the writer, and ``target_file_bytes`` are expected of its mean file | ``files of 16 MB`` |
| the columns of the next portion do not fit to it | ``a column's type changed`` |
| the next portion is of another assignment of the partitions | ``the partitions were assigned anew`` |
| the scratch folder has no room for the next portion and what Spark makes of the batch | ``little room in ...`` |
| the next portion cannot be converted, and the process ends | ``what came before a failure`` |
"""

from dataclasses import dataclass

from app.pipeline.open_batch import OpenBatch

_MOST_REJECTED_BYTES = 16 * 2**20
_MOST_FILES = 10_000  # each takes Spark some ms, and a line in a journal
_MB = 2**20

OTHER_OWNER = "the partitions were assigned anew"
OTHER_COLUMNS = "a column's type changed"
LITTLE_ROOM = "little room in the temporary folder"
BEFORE_FAILURE = "what came before a failure"


@dataclass(frozen=True, slots=True)
class CloseRules:
    """The rules of the table above.

    Attributes:
        max_staged_bytes: the largest staged file.
        max_sort_bytes: what Spark sorts in memory. A sort that goes through the disk does not keep the order of rows.
        target_file_bytes: how large a file has to be to be worth an early write; 0 leaves that to the consumer.
    """

    max_staged_bytes: int
    max_sort_bytes: int
    target_file_bytes: int

    def reason(self, batch: OpenBatch, *, is_writer_idle: bool, stored_share: float | None) -> str | None:
        """Why to end the batch after a portion; ``None`` to go on gathering.

        Args:
            batch: the open one.
            is_writer_idle: no batch waits for Spark.
            stored_share: what stored files take of their staged file's size; ``None`` while nobody knows.
        """
        if batch.staged_bytes >= self.max_staged_bytes or batch.sort_bytes >= self.max_sort_bytes:
            return f"{batch.staged_bytes // _MB:,} MB staged"
        if batch.rejected_bytes >= _MOST_REJECTED_BYTES:
            return "many records for the dead letter"
        if batch.files >= _MOST_FILES:
            return f"{batch.files:,} files"
        if self.target_file_bytes and is_writer_idle and batch.files and stored_share is not None:
            size = batch.staged_bytes * stored_share / batch.files
            if size >= self.target_file_bytes:
                return f"files of {size / _MB:.1f} MB"
        return None
