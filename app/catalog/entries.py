"""Files as they are told of over HTTP, and how many of them one request takes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from app.model import StoredFile

MOST_FILES: Final = 1_000
# What web servers take for a body where nobody has told them otherwise is 1 MiB, and the source needs some of it.
MOST_BYTES: Final = 900_000


def entry(file: StoredFile) -> Mapping[str, Any]:
    """What readers need to find the file and its rows."""
    return {
        "file_path": file.uri,
        "file_size": file.size,
        "last_modified": file.last_modified.isoformat(),
        "partition_values": dict(file.partition_values),
        "row_count": file.rows,
    }


def entry_with_bounds(file: StoredFile) -> Mapping[str, Any]:
    """The entry and, where there are any, the bounds by which readers leave the file out."""
    bounds = {"column_stats": file.column_stats} if file.column_stats else {}
    return {**entry(file), **bounds}


def portions(
    files: Sequence[StoredFile],
    described: Callable[[StoredFile], Mapping[str, Any]],
    most_bytes: int = MOST_BYTES,
) -> Iterator[Sequence[StoredFile]]:
    """Divide files into those whose descriptions fit into one request; one that is too large by itself goes alone."""
    portion: list[StoredFile] = []
    size = 0
    for file in files:
        more = len(json.dumps(described(file))) + 2  # the comma and blank between two of them
        if portion and (len(portion) == MOST_FILES or size + more > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += more
    if portion:
        yield portion
