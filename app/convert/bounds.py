"""How large values, columns and batches may be."""

from typing import Final

# Since 1970, in days and microseconds: the years 1 to 9999, which Python's calendar has.
DAYS: Final = (-719_162, 2_932_896)
DAY_MICROS: Final = 86_400_000_000
MICROSECONDS: Final = (DAYS[0] * DAY_MICROS, (DAYS[1] + 1) * DAY_MICROS - 1)

MAX_DEPTH: Final = 32  # levels of lists and structs; pyarrow reads no more than 100 of Parquet, where each list has two
MAX_SCALARS: Final = 5_000  # of the table: 5,000 columns take Spark 5 s per batch
MAX_NEW_SCALARS: Final = 1_000  # in one batch: a wide table begins at once, and one record of ids does not fill it
MAX_LISTS: Final = 12  # levels of lists in new columns: from there on each level doubles what DuckDB takes
LONGEST_NAME: Final = 255  # bytes of a new field's name: what catalogs and warehouses take

MOST_CELLS: Final = 16 * 2**20  # rows by columns that are parsed at once: each takes 8 bytes, also without a value
MOST_OBJECTS: Final = 8 * 2**20  # values of one record in Python: each takes 40 to 50 bytes
