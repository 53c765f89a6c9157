"""Which columns of a file are not worth a dictionary.

Parquet tries one for every column: it looks up each value of a column's first page, and where that saved nothing it
writes the page again without. Files of a batch often have one page, so columns whose values hardly repeat are written
twice. The same question is answered here from a sample.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.model import OutputFile

_FIRST_PAGE_ROWS = 20_000  # of Parquet's default page, after which it decides


def without_dictionary(table: pa.Table, ids: pa.Array, groups: Sequence[OutputFile]) -> list[str]:
    """Names of the columns for which Parquet would give its dictionary up, judged by the largest file.

    Args:
        table: the rows of a batch.
        ids: the file of every row, as an index of ``groups``.
        groups: at least one.
    """
    largest = max(range(len(groups)), key=lambda index: groups[index].rows)
    candidates = [name for name in table.column_names if _has_dictionary(table.schema.field(name).type)]
    rows = pc.indices_nonzero(pc.equal(ids, largest)).slice(0, _FIRST_PAGE_ROWS)
    sample = table.select(candidates).take(rows)
    return [name for name in candidates if not _is_smaller(sample[name])]


def _has_dictionary(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(is_number or pa.types.is_timestamp(kind) or pa.types.is_string(kind))


def _is_smaller(values: pa.ChunkedArray) -> bool:
    """Whether a dictionary and the indices into it take less than the values, as Parquet counts them."""
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
