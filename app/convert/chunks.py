"""Splits a batch into chunks of messages, and joins the converted rows of all chunks into one table.

A chunk contains up to 8 MB of messages. If some messages must be converted one by one, chunks become smaller. Chunks
keep the order of the messages, because the first value of a new column decides the column's type.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import pyarrow as pa

from app.convert.columns import CONVERSION_ERRORS, accepts, recast
from app.model import Batch, Headers, Message

Values = Sequence[bytes]  # values of the messages that have a value
AllHeaders = Sequence[Headers | None]  # headers of the messages in ``Values``

FEW = 256  # this number of messages or fewer are converted faster one by one
_MOST_BYTES = 8 * 2**20  # bytes of messages in a chunk; the parser copies these bytes
# If each message has different field names, n messages have n columns, and their table has n * n cells.
_MOST_ONE_BY_ONE = 2048


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive messages of a batch. The messages may be in several batch parts.

    ``parts`` contains the index of each message's batch part (int32). ``first`` is the position of the first message in
    the batch.
    """

    messages: Sequence[Message]
    parts: pa.Array
    first: int

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def places(self) -> range:
        return range(self.first, self.first + len(self))

    def cut(self, start: int, stop: int) -> "Chunk":
        return Chunk(self.messages[start:stop], self.parts[start:stop], self.first + start)

    def halves(self) -> "tuple[Chunk, Chunk]":
        middle = len(self) // 2
        return self.cut(0, middle), self.cut(middle, len(self))

    def pieces(self) -> "Iterator[Chunk]":
        """Yields chunks that are small enough to be read one by one."""
        for start in range(0, len(self), _MOST_ONE_BY_ONE):
            yield self.cut(start, start + _MOST_ONE_BY_ONE)


def chunks(batch: Batch) -> Iterator[Chunk]:
    """Yields all messages of a batch, in chunks of up to 8 MB. The positions of messages follow the positions of rows.

    A chunk may contain several parts. With 100 partitions, a chunk of one part would be only a few hundred messages.
    """
    counts = map(len, batch.messages)
    parts = [pa.repeat(pa.scalar(part, pa.int32()), count) for part, count in enumerate(counts)]
    everything = Chunk(
        list(chain.from_iterable(batch.messages)),
        pa.concat_arrays([pa.nulls(0, pa.int32()), *parts]),
        sum(map(len, batch.rows)),
    )
    sizes = list(accumulate(map(len, everything.messages)))
    start = 0
    while start < len(sizes):
        before = sizes[start - 1] if start else 0
        stop = max(start + 1, bisect_right(sizes, before + _MOST_BYTES))
        yield everything.cut(start, stop)
        start = stop


@dataclass(frozen=True, slots=True)
class Rows:
    """Converted rows: a table, an array for each partition column, and the index of each row's batch part (int32).

    If no row has a value, ``table`` has no columns. ``has_timestamps``: whether any record has the timestamp field.
    """

    table: pa.Table
    partition_values: Sequence[pa.Array]
    parts: pa.Array
    has_timestamps: bool


def join_rows(converted: Sequence[Rows], kinds: Mapping[str, pa.DataType]) -> Rows | None:
    """Joins all rows, with the columns in the order of ``kinds``. Returns ``None`` if values do not fit these types.

    ``converted`` contains the rows of at least one chunk. Their columns may have earlier types than in ``kinds``.
    """
    try:
        tables = [_in_types(rows.table, kinds) for rows in converted]
    except CONVERSION_ERRORS:  # such as integers with more digits than a double
        return None
    if len(converted) == 1:
        return replace(converted[0], table=tables[0])
    table = pa.concat_tables(tables, promote_options="default")
    table = table.select([name for name in kinds if name in table.column_names])
    values = [pa.concat_arrays(arrays) for arrays in zip(*(rows.partition_values for rows in converted), strict=True)]
    parts = pa.concat_arrays([rows.parts for rows in converted])
    return Rows(table, values, parts, any(rows.has_timestamps for rows in converted))


def _in_types(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    for index, column in enumerate(table.schema):
        kind = kinds.get(column.name)
        if kind == column.type:
            continue
        if kind is None or not accepts(kind, column.type):
            raise ValueError(column.name)
        chunks = [recast(chunk, kind) for chunk in table.column(index).chunks]
        table = table.set_column(index, pa.field(column.name, kind), pa.chunked_array(chunks, kind))
    return table
