"""Metadata of an Iceberg table that is small as it is stored, and would fill the memory once it is unpacked."""

import bz2
import gzip
import io
import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader, construct_writer

from app.errors import FatalError
from tests.unit.parts.iceberg.iceberg_bench import IcebergBench, marks

ZEROS = bytes(65 << 20)


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def in_two_streams(data: bytes) -> bytes:
    return bz2.compress(data[: len(data) // 2]) + bz2.compress(data[len(data) // 2 :])


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "deflate": deflate,
    "bzip2": in_two_streams,
    "zstandard": zstandard.ZstdCompressor().compress,
    "null": bytes,
}


@pytest.fixture
def bench(tmp_path: Path) -> IcebergBench:
    bench = IcebergBench(tmp_path)
    add(bench, 1)
    return bench


def add(bench: IcebergBench, number: int) -> None:
    bench.member().add_files([bench.file(str(number), {"n": [number]})], "readings", marks(number))


def repack(bench: IcebergBench, codec: str, change: Callable[[int, bytes], list[tuple[int, bytes]]]) -> Path:
    """Writes the list of the newest snapshot's manifests in another codec, with other blocks: entries and bytes."""
    snapshot = bench.table.current_snapshot()
    assert snapshot
    path = Path(snapshot.manifest_list.removeprefix("file://"))
    decoder = StreamingBinaryDecoder(path.read_bytes())
    header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    blocks = change(decoder.read_int(), zlib.decompress(decoder.read_bytes(), -15))
    file = io.BytesIO()
    encoder = BinaryEncoder(file)
    construct_writer(META_SCHEMA).write(
        encoder, AvroFileHeader(header.magic, {**header.meta, "avro.codec": codec}, header.sync)
    )
    for count, data in blocks:
        encoder.write_int(count)
        encoder.write_bytes(PACKED[codec](data))
        encoder.write(header.sync)
    path.write_bytes(file.getvalue())
    return path


@pytest.mark.parametrize("codec", PACKED)
def test_manifests_in_each_codec_are_read(bench: IcebergBench, codec: str) -> None:
    repack(bench, codec, lambda count, data: [(count, data)])
    add(bench, 2)
    assert [row["n"] for row in bench.rows("n")] == [1, 2]


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "zstandard"])
@pytest.mark.parametrize("blocks", [1, 5])
def test_manifests_that_would_fill_the_memory_are_refused(bench: IcebergBench, codec: str, blocks: int) -> None:
    part = ZEROS[: len(ZEROS) // blocks]
    path = repack(bench, codec, lambda count, data: [(count, data)] + [(1, part)] * blocks)
    size = f"{path.stat().st_size:,}"
    with pytest.raises(FatalError, match=rf"{path.name}: {size} bytes: decompressed .* 64 MiB.*roll the table back"):
        add(bench, 2)


def test_entries_that_take_no_bytes_are_bounded_too(bench: IcebergBench) -> None:
    repack(bench, "null", lambda count, data: [(count, data), (1 << 40, b"")])
    with pytest.raises(FatalError, match="250,000 entries"):
        add(bench, 2)


@pytest.mark.parametrize(
    ("tail", "said"), [(b"a" * (33 << 20), "32 MiB"), (b'",' + b'"":{},' * 1_000_000 + b'"":"', "1,000,000 values")]
)
def test_packed_metadata_that_would_fill_the_memory_is_refused(
    tmp_path: Path, bench: IcebergBench, tail: bytes, said: str
) -> None:
    location = bench.table.metadata_location
    metadata = Path(location.removeprefix("file://")).read_bytes()
    packed = location.replace(".metadata.json", ".gz.metadata.json")

    def point_to(body: bytes) -> None:
        Path(packed.removeprefix("file://")).write_bytes(gzip.compress(body))
        with sqlite3.connect(tmp_path / "catalog.db") as catalog:
            catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", (packed,))

    point_to(metadata)
    assert bench.new_member().check()
    point_to(json.dumps(json.loads(metadata)).encode()[:-1] + b', "more": "' + tail + b'"}')
    with pytest.raises(FatalError, match=rf"gz.metadata.json: [\d,]+ bytes: it .* more than {said}"):
        bench.new_member().check()
