"""Makes pyiceberg read and write metadata files through the connector's store, with the login of the store."""

import zlib
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import Final

import pyarrow as pa
from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from app.errors import FatalError
from app.json_texts import MOST_BYTES, check_json
from app.storage.base import ObjectStore
from app.storage.document import UnreadableError

STORE = "quix.store"  # the property with the ``ObjectStore``
ADDRESS = "quix.address"  # the property with the store's address in Iceberg's metadata
OWNS = "quix.owns"  # the property with the function that returns whether a location belongs to the table

_MOST_UNPACKED: Final = 64 << 20  # maximum bytes of a decompressed manifest; engines write 8 MB, compressed
_MOST_ENTRIES: Final = 250_000  # maximum entries of a manifest; each entry needs a kilobyte of memory
_CODECS: Final = {"bzip2": "bz2", "zstandard": "zstd"}  # Avro's names and pyarrow's names
_REMEDY: Final = "Find out who has written it, and roll the table back; rewrite_manifests makes smaller ones"


class StoreIO(FileIO):
    """A ``FileIO`` for the connector's store. pyiceberg passes the properties ``STORE``, ``ADDRESS`` and ``OWNS``."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._store: ObjectStore = properties[STORE]
        self._address: str = properties[ADDRESS]
        self._owns: Callable[[str], bool] = properties[OWNS]

    def new_input(self, location: str) -> "StoreFile":
        return StoreFile(self._store, self.key(location), location)

    def new_output(self, location: str) -> "StoreFile":
        return self.new_input(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete an object if it is a metadata JSON file of this table. Keep all other objects.

        Metadata may name objects of other tables. Manifests also stay. If the catalog refuses a commit, pyiceberg
        deletes the manifests of the commit. But a proxy may have sent the request twice, and the first request may have
        succeeded. The engines' maintenance deletes the objects that remain.
        """
        location = location if isinstance(location, str) else location.location
        if location.endswith(".metadata.json") and self._owns(location):
            self._store.delete(self.key(location))

    def key(self, location: str) -> str:
        """Return the object key for a location in the metadata."""
        path = _path(location)
        key = path.removeprefix(f"{_path(self._address)}/")
        if key == path or ".." in key.split("/"):
            raise FatalError(
                f"opening {location}",
                f"it is not in {self._address}",
                "Keep the table's metadata in the store of its data files",
            )
        return key


def _path(location: str) -> str:
    """Return a location without the scheme, because the scheme has several forms: ``file:///a`` and ``file:/a``."""
    return location.partition(":")[2].lstrip("/")


class StoreFile(InputFile, OutputFile):
    def __init__(self, store: ObjectStore, key: str, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._key = key

    def __len__(self) -> int:
        stored = self._store.find(self._key)
        if stored is None:
            raise FileNotFoundError(self.location)
        return stored.size

    def exists(self) -> bool:
        return self._store.find(self._key) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - pyiceberg's interface
        document = self._store.read(self._key)
        if document is None:
            raise FileNotFoundError(self.location)
        _check(self.location, document.body)
        return BytesIO(document.body)

    def to_input_file(self) -> "StoreFile":
        return self

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002 - names are unique
        """Return a stream. When the stream is closed, its content is stored."""
        return _Body(self._store, self._key)


class _Body(BytesIO):
    def __init__(self, store: ObjectStore, key: str) -> None:
        super().__init__()
        self._store = store
        self._key = key

    def close(self) -> None:
        if not self.closed:
            body = self.getvalue()
            super().close()
            self._store.overwrite(self._key, body)


def _check(location: str, body: bytes) -> None:
    """Raise ``UnreadableError`` if decompressed metadata would need too much memory."""
    try:
        if body.startswith(MAGIC):
            _check_avro(body)
        else:
            check_json(_unpacked("gzip", body, MOST_BYTES) if location.endswith(".gz.metadata.json") else body)
    except (ValueError, OSError, zlib.error) as error:
        raise UnreadableError(f"reading {location}", f"{len(body):,} bytes: {error}", _REMEDY) from None


def _check_avro(body: bytes) -> None:
    decoder = StreamingBinaryDecoder(body)
    with suppress(EOFError):  # at the end of the file
        header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
        check_json("".join(header.meta.values()).encode())
        codec, room, entries, count = header.meta.get(AVRO_CODEC_KEY, ""), _MOST_UNPACKED, 0, 1
        while count > 0:
            count = decoder.read_int()
            room -= len(_unpacked(_CODECS.get(codec, codec), decoder.read_bytes(), room))
            entries += count
            if room < 0 or entries > _MOST_ENTRIES:
                raise ValueError(f"decompressed it has over {_MOST_UNPACKED >> 20} MiB, or {_MOST_ENTRIES:,} entries")
            decoder.skip(SYNC_SIZE)


def _unpacked(codec: str, packed: bytes, most: int) -> bytes:
    """Return the decompressed bytes, but at most ``most`` + 1 bytes."""
    if codec == "deflate":
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most + 1)
    if codec in ("gzip", *_CODECS.values()):
        return bytes(pa.CompressedInputStream(pa.BufferReader(packed), codec).read(most + 1))
    return packed
