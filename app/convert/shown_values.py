"""Shows any value in a message, as the beginning of its ``repr()``."""

from collections.abc import Iterator
from typing import Final

_LONGEST: Final = 80  # characters, enough to recognise a value


def shown(value: object, longest: int = _LONGEST) -> str:
    """Returns the first ``longest`` characters of ``repr(value)``; never formats much more than these."""
    text = ""
    for piece in _pieces(value, longest, 0):
        text += piece
        if len(text) > longest:
            return text[: longest - 3] + "..."
    return text


def _pieces(value: object, longest: int, depth: int) -> Iterator[str]:
    """Yields the ``repr()`` in parts; long texts are cut before they are formatted."""
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
