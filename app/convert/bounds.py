"""Limits of values, columns and batches."""

from typing import Final

# Python's calendar supports the years 1 to 9999. These limits are days and microseconds since 1970.
DAYS: Final = (-719_162, 2_932_896)
DAY_MICROS: Final = 86_400_000_000
MICROSECONDS: Final = (DAYS[0] * DAY_MICROS, (DAYS[1] + 1) * DAY_MICROS - 1)

MAX_DEPTH: Final = 32  # levels of lists and structs; pyarrow reads up to 100 levels from Parquet, where a list has two
MAX_SCALARS: Final = 5_000  # most scalar fields of a table: with 5,000 columns, Spark needs 5 s for a batch
MAX_NEW_SCALARS: Final = 1_000  # most new scalar fields in a batch: a record with ids as names cannot fill the table
MAX_LISTS: Final = 12  # levels of lists in a new column: each further level would double DuckDB's work
LONGEST_NAME: Final = 255  # most bytes of a new field's name: catalogs and warehouses have this limit

MOST_CELLS: Final = 16 * 2**20  # most cells (rows multiplied by columns) parsed at a time: each cell needs 8 bytes
MOST_OBJECTS: Final = 8 * 2**20  # most Python objects for one record: each object needs 40 to 50 bytes
