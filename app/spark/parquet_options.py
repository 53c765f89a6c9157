"""Options of Parquet's writer that follow from a batch: what its files hold decides what is worth looking at."""

from collections.abc import Mapping

import pyarrow as pa

from app.spark.staged_file import columns_without_dictionary, largest_row

_BYTES_BETWEEN_CHECKS = 2**20
_ROWS_BETWEEN_CHECKS = 10_000
_SMALLEST_PAGE = 2**12
_LARGEST_PAGE = 2**20  # Parquet's own default
_LENGTH_BYTES = 4  # of a text, before its bytes


def parquet_options(schema: pa.Schema, rows: int) -> Mapping[str, str]:
    """Options for the files that are made of a staged file.

    Args:
        schema: the staged file's, with what it says of its rows.
        rows: most rows that one of the files will have.
    """
    largest = largest_row(schema)
    if largest is None:
        return _encodings(schema)
    return _encodings(schema) | _size_checks(largest) | _page_size(rows * (largest + _LENGTH_BYTES))


def _size_checks(largest: int) -> dict[str, str]:
    """After how many rows Parquet looks at the size of its buffers.

    After each one costs a fifth of the whole write. Left to itself it guesses from the rows before: a few large ones
    after many small ones then fill the heap. So it looks whenever no more than a megabyte can have come together.
    """
    rows = str(max(1, min(_ROWS_BETWEEN_CHECKS, _BYTES_BETWEEN_CHECKS // max(1, largest))))
    return {f"parquet.{what}.size.row.check.{bound}": rows for what in ("page", "block") for bound in ("min", "max")}


def _page_size(file_bytes: int) -> dict[str, str]:
    """For each file Parquet makes room for a whole page, compressed: a megabyte, of which a small file needs little."""
    return {"parquet.page.size": str(max(_SMALLEST_PAGE, min(_LARGEST_PAGE, file_bytes)))}


def _encodings(schema: pa.Schema) -> dict[str, str]:
    # In a setting's name a dot would stand between a column and a field of it; others are left to Parquet.
    names = (name for name in columns_without_dictionary(schema) if name.isidentifier())
    return {f"parquet.enable.dictionary#{name}": "false" for name in names}
