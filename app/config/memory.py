"""Divides the memory of a container between rows in Python, Spark's Java heap, and Spark's sort outside the heap.

Measured: Python without rows needs about 250 MB. A heap of 512 MB is enough for each batch that fits into the sort, and
for records of a 32nd of the heap.
"""

from dataclasses import dataclass
from typing import Final

from app.container import MemoryLimit

SMALLEST_CONTAINER_MB: Final = 1000
ROOMY_CONTAINER_MB: Final = 1500

_PYTHON_MB = 250
_JVM_BESIDE_HEAP_MB = 100
# The process of COMPACT used 1,000 MB with large files, while the rest used 280 MB less than planned here. The process
# of KEEP has no Java, and used 200 MB.
_BESIDE_MB = {"": 0, "COMPACT": 800, "KEEP": 300}
_SORT_MB = 145
_RECORDS_IN_BUFFER = 4  # a record is larger in Python than its message, and a batch should contain several
_RECORDS_IN_HEAP = 32
_HEAP_WITHOUT_SORT_MB = 300
_SHARE_OF_HEAP = 5  # a larger heap sorts more rows at a time, so files are larger
# The client's default of 1 MB contained ten compressed messages of 100 MB. 128 kB costs a fifth of the rate of a single
# partition, and limits it to 6 MB/s if the broker is 20 ms away.
_FETCHED_AT_ONCE = 512 * 1024
_FETCHED_AT_ONCE_SMALL = 128 * 1024


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """MB of rows in Python, MB of Java heap, and the container's limit if known.

    ``beside`` is the setting whose process runs next to the connector: COMPACT, KEEP, or none.
    """

    buffer_mb: int
    heap_mb: int
    limit: MemoryLimit | None = None
    beside: str = ""

    @property
    def sort_mb(self) -> int:
        """MB of rows that Spark sorts, limited by the container."""
        of_heap = (self.heap_mb - _HEAP_WITHOUT_SORT_MB) // _SHARE_OF_HEAP
        return max(_SORT_MB if _is_roomy(self.limit) else 0, of_heap)

    @property
    def off_heap_mb(self) -> int:
        """MB that the sort may use, including the list of rows while it is copied to a longer list."""
        return self.sort_mb * 7 // 4

    @property
    def max_record_bytes(self) -> int:
        """Size of the largest message that becomes a row. Spark keeps several copies of its row."""
        return min(self.buffer_mb * 2**20 // _RECORDS_IN_BUFFER, self.heap_mb * 2**20 // _RECORDS_IN_HEAP)

    @property
    def fetched_at_once_bytes(self) -> int:
        """Compressed bytes in an answer of a broker, or in a batch. The Kafka client decompresses them together."""
        return _FETCHED_AT_ONCE if _is_roomy(self.limit) else _FETCHED_AT_ONCE_SMALL

    @property
    def total_mb(self) -> int:
        beside_mb = _JVM_BESIDE_HEAP_MB + _BESIDE_MB[self.beside]
        return _PYTHON_MB + self.buffer_mb + self.heap_mb + self.off_heap_mb + beside_mb

    @property
    def shortage(self) -> str | None:
        """Why the container is too small, as the end of a sentence; ``None`` if it is large enough or unknown."""
        if self.limit is None:
            return None
        if self.limit.mb < SMALLEST_CONTAINER_MB:
            return (
                f"is too little memory: the connector needs {SMALLEST_CONTAINER_MB:,} MB, better "
                f"{ROOMY_CONTAINER_MB:,} MB"
            )
        if self.total_mb > self.limit.mb:
            return (
                f"is too little memory for MAX_BUFFER_MB={self.buffer_mb}, SPARK_DRIVER_MEMORY={self.heap_mb}m"
                f"{self.beside and f' and {self.beside}'}, which need {self.total_mb:,} MB in all: "
                "give the deployment more memory, or leave these settings empty"
            )
        return None


def _is_roomy(limit: MemoryLimit | None) -> bool:
    return limit is None or limit.mb >= ROOMY_CONTAINER_MB
