"""What objects hold, whatever store they are in."""

from collections.abc import Iterable
from pathlib import Path

CHUNK = 1 << 20  # bytes of a file in memory at once

_TYPES = {".parquet": "application/vnd.apache.parquet", ".json": "application/json"}


def content_type(key: str) -> str:
    """The ``Content-Type`` to store an object with."""
    return _TYPES.get(Path(key).suffix, "application/octet-stream")


def holds(path: Path, chunks: Iterable[bytes]) -> bool:
    """Whether these are the bytes of the file."""
    with path.open("rb") as file:
        return all(file.read(len(chunk)) == chunk for chunk in chunks) and not file.read(1)
