"""Options of Spark from the settings, and options of Parquet's writer that depend on a batch.

The options of the writer are checks of sizes, the size of pages, dictionaries and bounds. This module does not import
Spark, because settings are read first.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from app.model import StagedFile

_BYTES_BETWEEN_CHECKS = 2**20
_ROWS_BETWEEN_CHECKS = 10_000
_SMALLEST_PAGE = 2**12
_LARGEST_PAGE = 2**20  # Parquet's own default
_LENGTH_BYTES = 4  # bytes of the length that precedes a text
_FIRST_PAGE_ROWS = 20_000  # of Parquet's default page, after which it decides about a dictionary


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and how Spark writes Parquet.

    Args:
        master: ``local``, ``local[n]`` or ``local[*]``; for merging also a cluster.
        heap_mb, off_heap_mb: Memory of the JVM in MB. Rows are sorted outside of the heap.
        compression: ``snappy``, ``zstd``, ``gzip`` or ``none``.
    """

    master: str
    heap_mb: int
    off_heap_mb: int
    compression: str
    row_group_rows: int

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def cores(self) -> int:
        match = re.fullmatch(r"local(\[(\*|\d+).*\])?", self.master)
        text = match[2] if match else None
        return (os.cpu_count() or 1) if text == "*" else int(text or 1)


def parquet_options(staged: StagedFile) -> Mapping[str, str]:
    largest_file = max(file.rows for file in staged.groups) * (staged.largest_row + _LENGTH_BYTES)
    rows_between_checks = min(_ROWS_BETWEEN_CHECKS, _BYTES_BETWEEN_CHECKS // max(1, staged.largest_row))
    # In an option's name, a dot separates a column and its field. For other names Parquet decides itself.
    names = [name for name in staged.without_dictionary if name.isidentifier()]
    return {
        # Parquet allocates a complete compressed page for each file, by default a megabyte, also for a small file.
        "parquet.page.size": str(max(_SMALLEST_PAGE, min(_LARGEST_PAGE, largest_file))),
        **{f"parquet.enable.dictionary#{name}": "false" for name in names},
        **_statistics(staged.large_values),
        **size_checks(max(1, rows_between_checks)),
    }


def size_checks(rows: int) -> dict[str, str]:
    """Makes Parquet check the size of its buffers after each ``rows`` rows.

    A check after each row costs a fifth of the write. By default Parquet estimates from earlier rows. Then a few large
    rows after many small ones would fill the heap.
    """
    names = [f"parquet.{unit}.size.row.check.{bound}" for unit in ("page", "block") for bound in ("min", "max")]
    return dict.fromkeys(names, str(rows))


def _statistics(large: Sequence[tuple[str, ...]]) -> dict[str, str]:
    """Switches off the statistics of columns with large values.

    Parquet keeps copies of the smallest and the largest value of each page and row group. Ten copies of a text of
    32 MB need a third of the heap. The footer never contains bounds of more than 4 KB.
    """
    paths = [".".join(path) for path in large]
    # Options ignore case, and do not distinguish a dot in a name from a dot between names.
    if len({path.lower() for path in paths}) < len(paths) or any("." in name for path in large for name in path):
        return {"parquet.column.statistics.enabled": "false"}
    return {f"parquet.column.statistics.enabled#{path}": "false" for path in paths}


def without_dictionary(table: pa.Table, ids: pa.Array) -> list[str]:
    """Returns the columns whose dictionary Parquet would discard, according to the file with the most rows.

    Parquet tries a dictionary for each column's first page. If it saves nothing, Parquet writes the page again. Files
    of a batch often have one page, so columns with few repeated values would be written twice. A sample decides this
    here instead. ``table`` has at least one row. ``ids`` contains the number of each row's file.
    """
    [largest] = pc.mode(ids).field("mode")
    candidates = [name for name in table.column_names if _has_dictionary(table.schema.field(name).type)]
    rows = pc.indices_nonzero(pc.equal(ids, largest)).slice(0, _FIRST_PAGE_ROWS)
    sample = table.select(candidates).take(rows)
    return [name for name in candidates if not _is_smaller(sample[name])]


def _has_dictionary(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(is_number or pa.types.is_timestamp(kind) or pa.types.is_string(kind))


def _is_smaller(values: pa.ChunkedArray) -> bool:
    """Whether a dictionary with its indices is smaller than the values, by Parquet's formula."""
    present = values.drop_null()
    if not len(present):
        return True
    if pa.types.is_string(present.type):
        plain = 4 * len(present) + pc.sum(pc.binary_length(present)).as_py()
    else:
        plain = present.type.bit_width // 8 * len(present)
    distinct = pc.count_distinct(present).as_py()
    dictionary = distinct * plain / len(present)
    indices = len(present) * (distinct - 1).bit_length() / 8
    return bool(dictionary + indices < plain)
