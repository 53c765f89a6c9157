"""Plans the memory of a container: for rows in Python, Spark's Java heap, and Spark's sort buffer outside the heap.

In measurements, Python without rows needs about 250 MB. A heap of 512 MB is enough for batches that fit into the sort
buffer. A record may be as large as a 32nd of the heap.
"""

from dataclasses import dataclass
from typing import Final

from app.container import MemoryLimit

SMALLEST_CONTAINER_MB: Final = 1000
ROOMY_CONTAINER_MB: Final = 1500

_PYTHON_MB = 250
_JVM_BESIDE_HEAP_MB = 100
# For large files, the process of COMPACT used 1,000 MB, and the other processes used 280 MB less than planned here. The
# process of KEEP does not start Java, and used 200 MB.
_BESIDE_MB = {"": 0, "COMPACT": 800, "KEEP": 300}
_SORT_MB = 145
_RECORDS_IN_BUFFER = 4  # a Python object is larger than its message, and a batch should have several
_RECORDS_IN_HEAP = 32
_HEAP_WITHOUT_SORT_MB = 300
_SHARE_OF_HEAP = 5  # a larger heap allows a larger sort buffer, and therefore larger files
# The client's default is 1 MB, which can contain ten compressed messages of 100 MB. With 128 kB, the rate of one
# partition is a fifth lower, and at most 6 MB/s if the broker answers after 20 ms.
_FETCHED_AT_ONCE = 512 * 1024
_FETCHED_AT_ONCE_SMALL = 128 * 1024


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The size in MB of rows in Python, the size in MB of the Java heap, and the container's limit if known.

    ``beside`` is the setting that starts another process in the container: COMPACT, KEEP, or an empty text.
    """

    buffer_mb: int
    heap_mb: int
    limit: MemoryLimit | None = None
    beside: str = ""

    @property
    def sort_mb(self) -> int:
        """The maximum size in MB of the rows that Spark sorts. In a small container, the size is smaller."""
        of_heap = (self.heap_mb - _HEAP_WITHOUT_SORT_MB) // _SHARE_OF_HEAP
        return max(_SORT_MB if _is_roomy(self.limit) else 0, of_heap)

    @property
    def off_heap_mb(self) -> int:
        """The size in MB of the sort buffer. When Spark's list of rows grows, the old and new lists need memory."""
        return self.sort_mb * 7 // 4

    @property
    def max_record_bytes(self) -> int:
        """The size in bytes of the largest message that becomes a row. Spark keeps several copies of a row."""
        return min(self.buffer_mb * 2**20 // _RECORDS_IN_BUFFER, self.heap_mb * 2**20 // _RECORDS_IN_HEAP)

    @property
    def fetched_at_once_bytes(self) -> int:
        """The maximum compressed size in bytes of a broker's answer or a record batch, which Kafka's client unpacks."""
        return _FETCHED_AT_ONCE if _is_roomy(self.limit) else _FETCHED_AT_ONCE_SMALL

    @property
    def total_mb(self) -> int:
        beside_mb = _JVM_BESIDE_HEAP_MB + _BESIDE_MB[self.beside]
        return _PYTHON_MB + self.buffer_mb + self.heap_mb + self.off_heap_mb + beside_mb

    @property
    def shortage(self) -> str | None:
        """The end of a sentence that explains why the container is too small; ``None`` if large enough or unknown."""
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
