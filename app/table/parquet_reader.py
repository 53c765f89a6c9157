"""Reads only the footers of Parquet files in the store."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import FatalError, one_line
from app.model import DataFile
from app.storage.base import ObjectStore


def read_footer(store: ObjectStore, key: str, size: int) -> pq.FileMetaData:
    """Reads the footer of a Parquet file. A footer of less than 64 KiB needs one request; otherwise two.

    Raises ``FatalError`` if the object is not a Parquet file.
    """
    try:
        return pq.read_metadata(RangeFile(store, key, size))
    except pa.ArrowException as error:
        raise FatalError(
            f"reading the footer of {store.uri}/{key}",
            f"it is not a Parquet file: {one_line(str(error))}",
            "Move it out of the table's folder, or restore it. Then start again",
        ) from error


def schema_of(file: DataFile) -> pa.Schema:
    """Returns the columns in the footer of a file, without metadata."""
    return file.footer.schema.to_arrow_schema().remove_metadata()


class RangeFile:
    """A file for pyarrow: each ``read`` is a request to the store.

    pyarrow first reads the end of the file. The object keeps these bytes. For a small file, they are the complete file.
    """

    closed = False

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._at = 0
        self._end = b""

    def read(self, length: int) -> bytes:
        length = min(length, self._size - self._at)
        begin = self._at - (self._size - len(self._end))
        if begin >= 0:
            self._at += length
            return self._end[begin : begin + length]
        data = self._store.read_range(self._key, self._at, length)
        if len(data) != length:
            raise FatalError(
                f"reading {self._store.uri}/{self._key}",
                f"the store returned {len(data)} bytes instead of {length}",
                "Check that nobody replaces the table's files, and check proxies of the store. Then start again",
            )
        self._at += length
        if self._at == self._size:
            self._end = data
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        """Does nothing, because no connection is open."""
