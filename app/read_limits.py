"""How much is read at once of what others have written: more would fill the memory."""

from typing import Final

MOST_BYTES: Final = 32 << 20  # of an object or an answer, unpacked; 1,000 snapshots of an Iceberg table take 1 MB
_MOST_VALUES: Final = 1_000_000  # of JSON: one that has three bytes may take 200 in memory


def check_json(body: bytes, most: int = MOST_BYTES) -> bytes:
    """Returns JSON that is to be parsed; ``ValueError`` if that may fill the memory. ``most`` is in bytes."""
    if len(body) > most:
        raise ValueError(f"it takes more than {most >> 20} MiB")
    if sum(map(body.count, (b",", b"{", b"["))) > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES:,} values")
    return body
