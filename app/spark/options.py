"""How Spark runs and writes. Imports no Spark: settings are read first."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and how it writes Parquet.

    Args:
        master: ``local``, ``local[n]`` or ``local[*]``; for merging also a cluster.
        heap_mb, off_heap_mb: of the JVM; it sorts rows outside the heap.
        compression: ``snappy``, ``zstd``, ``gzip`` or ``none``.
    """

    master: str
    heap_mb: int
    off_heap_mb: int
    compression: str
    row_group_rows: int

    @property
    def is_local(self) -> bool:
        """Whether Spark is in this process, and not on a cluster."""
        return self.master.startswith("local")
