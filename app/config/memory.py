"""Shares the memory of one container between the rows in Python and Spark's Java heap.

Measured: Python without rows takes about 250 MB; a JVM with a heap of 512 MB stays below 600 MB, one with a heap of
1,024 MB takes 750 MB and grows with the load. In heaps of 512 and 1,024 MB Spark writes a batch of 256 MB with records
of a 32nd of the heap. With 1,024 MB a third of the heap is to spare then.
"""

from dataclasses import dataclass
from typing import Final

from app.container import MemoryLimit

DEFAULT_BUFFER_MB: Final = 256
DEFAULT_HEAP_MB: Final = 1024
SMALL_HEAP_MB: Final = 512
SMALLEST_CONTAINER_MB: Final = 1000
ROOMY_CONTAINER_MB: Final = 2000

_PYTHON_MB = 250
_JVM_BESIDE_HEAP_MB = 100
_SHARE_OF_BUFFER = 8
_RECORDS_IN_BUFFER = 4  # a record is larger in Python than its message, and a batch should hold more than one
_RECORDS_IN_HEAP = 32
# The client's default of 1 MB held ten messages of 100 MB that were compressed. 128 kB cost a fifth of the rate of a
# single partition, and bound it at 6 MB/s where the broker is 20 ms away.
_FETCHED_AT_ONCE = 512 * 1024
_FETCHED_AT_ONCE_SMALL = 128 * 1024


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """MB of rows held in Python, MB of Java heap, and the container's limit if it is known."""

    buffer_mb: int
    heap_mb: int
    limit: MemoryLimit | None = None

    @property
    def max_record_bytes(self) -> int:
        """The largest message that becomes a row: Spark holds its row several times over at once."""
        return min(self.buffer_mb * 2**20 // _RECORDS_IN_BUFFER, self.heap_mb * 2**20 // _RECORDS_IN_HEAP)

    @property
    def fetched_at_once_bytes(self) -> int:
        """Compressed bytes of a partition in one answer of a broker; the Kafka client decompresses them all at once."""
        return _FETCHED_AT_ONCE if self.heap_mb > SMALL_HEAP_MB else _FETCHED_AT_ONCE_SMALL

    @property
    def fetched_in_all_bytes(self) -> int:
        """Compressed bytes of all partitions in one answer; the Kafka client takes no less than one message."""
        return max(4 * self.fetched_at_once_bytes, 1_000_000)

    @property
    def total_mb(self) -> int:
        return _PYTHON_MB + self.buffer_mb + self.heap_mb + _JVM_BESIDE_HEAP_MB

    @property
    def shortage(self) -> str | None:
        """Says why the container is too small, as the end of a sentence; ``None`` if it is not known to be."""
        if self.limit is None:
            return None
        if self.limit.mb < SMALLEST_CONTAINER_MB:
            return (
                f"is too little memory: the connector needs {SMALLEST_CONTAINER_MB:,} MB, better "
                f"{ROOMY_CONTAINER_MB:,} MB"
            )
        if self.total_mb > self.limit.mb:
            return (
                f"is too little memory for MAX_BUFFER_MB={self.buffer_mb} and SPARK_DRIVER_MEMORY={self.heap_mb}m, "
                f"which need {self.total_mb:,} MB in all: give the deployment more, or leave the two empty to have "
                "them fitted"
            )
        return None


def plan_memory(limit: MemoryLimit | None, buffer_mb: int | None, heap_mb: int | None) -> MemoryPlan:
    """Shares out the memory. The user's choices stay; the rest follows the container's limit, if it is known."""
    fitted_buffer, fitted_heap = DEFAULT_BUFFER_MB, DEFAULT_HEAP_MB
    if limit:
        fitted_buffer = max(1, min(DEFAULT_BUFFER_MB, limit.mb // _SHARE_OF_BUFFER))
        fitted_heap = DEFAULT_HEAP_MB if limit.mb >= ROOMY_CONTAINER_MB else SMALL_HEAP_MB
    return MemoryPlan(buffer_mb or fitted_buffer, heap_mb or fitted_heap, limit)
