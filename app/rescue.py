"""Values that fit no column in a lossless way: kept as JSON, by the names and paths they had in the record."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

RESCUED_COLUMN = "_rescued_data"
_SHOWN = 80  # characters, enough to recognise a value


@dataclass(frozen=True, slots=True)
class Rescue:
    """What was rescued of one column in a batch: how many values, and why, by the example of the first."""

    count: int
    example: str


def joined(first: Any, second: Any) -> Any:
    """What was rescued of one value in two steps: of a struct, fields are gathered."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        both = dict(first)
        for name, value in second.items():
            both[name] = joined(both[name], value) if name in both else value
        return both
    return second


def cut(text: str, longest: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def shown(value: object, longest: int = _SHOWN) -> str:
    """A value as a message shows it: as Python writes it, cut; only what is shown is looked at."""
    text = ""
    for piece in _pieces(value, longest, 0):
        text += piece
        if len(text) > longest:
            return text[: longest - 3] + "..."
    return text


def _pieces(value: object, longest: int, depth: int) -> Iterator[str]:
    """What ``repr()`` gives, piece by piece, and of each text and number no more than a message shows."""
    if depth > longest:
        yield "..."
    elif type(value) is dict:
        yield "{"
        for number, (name, each) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _pieces(name, longest, depth + 1)
            yield ": "
            yield from _pieces(each, longest, depth + 1)
        yield "}"
    elif type(value) is list:
        yield "["
        for number, each in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(each, longest, depth + 1)
        yield "]"
    elif isinstance(value, str | bytes | bytearray):
        yield repr(value[: longest + 1])
    else:
        yield _whole(value)


def _whole(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "a value of many levels"
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return f"a number of {value.bit_length():,} bits" if isinstance(value, int) else f"a {type(value).__name__}"
