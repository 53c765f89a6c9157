"""How Spark runs and writes. Imports no Spark: settings are read first."""

import os
import re
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

    @property
    def cores(self) -> int:
        """Those that a local Spark uses."""
        named = re.fullmatch(r"local(\[(\*|\d+).*\])?", self.master)
        text = named[2] if named else None
        return (os.cpu_count() or 1) if text == "*" else int(text or 1)
