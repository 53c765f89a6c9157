"""Limits of values, columns and batches."""

from typing import Final

# The years 1 to 9999, which Python's calendar supports, in days and microseconds since 1970.
DAYS: Final = (-719_162, 2_932_896)
DAY_MICROS: Final = 86_400_000_000
MICROSECONDS: Final = (DAYS[0] * DAY_MICROS, (DAYS[1] + 1) * DAY_MICROS - 1)

MAX_DEPTH: Final = 32  # levels of lists and structs; pyarrow reads at most 100 from Parquet, where a list has two
MAX_SCALARS: Final = 5_000  # scalar fields of a table: with 5,000 columns, Spark needs 5 s for a batch
MAX_NEW_SCALARS: Final = 1_000  # in a batch: enough to begin a wide table, and a record of ids cannot fill the table
MAX_LISTS: Final = 12  # levels of lists in new columns: from here each level doubles the work of DuckDB
LONGEST_NAME: Final = 255  # bytes of a new field's name: the limit of catalogs and warehouses

MOST_CELLS: Final = 16 * 2**20  # rows multiplied by columns, parsed at a time: each needs 8 bytes, also if empty
MOST_OBJECTS: Final = 8 * 2**20  # values of one record in Python: each needs 40 to 50 bytes
