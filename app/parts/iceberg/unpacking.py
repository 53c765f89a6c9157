"""Refuses metadata of a table that would fill the memory: pyiceberg unpacks whatever size it has."""

import zlib
from contextlib import suppress
from typing import Final

import pyarrow as pa
from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader

from app.json_texts import MOST_BYTES, check_json
from app.storage.document import UnreadableError

_MOST_UNPACKED: Final = 64 << 20  # bytes of a manifest; engines write 8 MB, packed
_MOST_ENTRIES: Final = 250_000  # of a manifest; each takes a kilobyte in memory
_CODECS: Final = {"bzip2": "bz2", "zstandard": "zstd"}  # names of Avro and of pyarrow
_REMEDY: Final = "Find out who has written it, and roll the table back; rewrite_manifests makes smaller ones"


def check_metadata(location: str, body: bytes) -> None:
    """Raises ``UnreadableError`` for an object of a table's metadata that is too large once it is unpacked."""
    try:
        if body.startswith(MAGIC):
            _check_avro(body)
        else:
            check_json(_unpacked("gzip", body, MOST_BYTES) if location.endswith(".gz.metadata.json") else body)
    except (ValueError, OSError, zlib.error) as error:
        raise UnreadableError(f"reading {location}", f"of its {len(body):,} bytes: {error}", _REMEDY) from None


def _check_avro(body: bytes) -> None:
    decoder = StreamingBinaryDecoder(body)
    with suppress(EOFError):  # where pyiceberg ends, too
        header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
        check_json("".join(header.meta.values()).encode())
        codec, room, entries, count = header.meta.get(AVRO_CODEC_KEY, ""), _MOST_UNPACKED, 0, 1
        while count > 0:
            count = decoder.read_int()
            room -= len(_unpacked(_CODECS.get(codec, codec), decoder.read_bytes(), room))
            entries += count
            if room < 0 or entries > _MOST_ENTRIES:
                raise ValueError(f"unpacked it has more than {_MOST_UNPACKED >> 20} MiB, or {_MOST_ENTRIES:,} entries")
            decoder.skip(SYNC_SIZE)


def _unpacked(codec: str, packed: bytes, most: int) -> bytes:
    """Returns what is packed, or its first bytes: one more than ``most``."""
    if codec == "deflate":
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most + 1)
    if codec in ("gzip", *_CODECS.values()):
        return bytes(pa.CompressedInputStream(pa.BufferReader(packed), codec).read(most + 1))
    return packed
