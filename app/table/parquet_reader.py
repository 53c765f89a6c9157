"""Reads the footers of Parquet files in the store, without the rest of them."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import FatalError, one_line
from app.model import DataFile
from app.storage.base import ObjectStore


def read_footer(store: ObjectStore, key: str, size: int) -> pq.FileMetaData:
    """Reads the footer of a Parquet file; one request to the store for less than 64 KiB, otherwise two.

    Raises ``FatalError`` if the object is none.
    """
    try:
        return pq.read_metadata(RangeFile(store, key, size))
    except pa.ArrowException as error:
        raise FatalError(
            f"reading the footer of {store.uri}/{key}",
            f"it is no Parquet file: {one_line(str(error))}",
            "Move it out of the table's folder, or restore it; then start again",
        ) from error


def schema_of(file: DataFile) -> pa.Schema:
    """Returns the columns of a file, by its footer, without metadata."""
    return file.footer.schema.to_arrow_schema().remove_metadata()


class RangeFile:
    """A file for pyarrow to read from: each ``read`` is a request to the store.

    The end of the file, which is what pyarrow reads first, is kept: a small file is all in it.
    """

    closed = False

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._at = 0
        self._end = b""

    def read(self, length: int) -> bytes:
        wanted = min(length, self._size - self._at)
        begin = self._at - (self._size - len(self._end))
        if begin >= 0:
            self._at += wanted
            return self._end[begin : begin + wanted]
        found = self._store.read_range(self._key, self._at, wanted)
        if len(found) != wanted:
            raise FatalError(
                f"reading {self._store.uri}/{self._key}",
                f"{len(found)} bytes came where {wanted} were asked for",
                "Check that nobody replaces the table's files, and any proxy on the way; then start again",
            )
        self._at += wanted
        if self._at == self._size:
            self._end = found
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        """Does nothing: no connection is held open."""
