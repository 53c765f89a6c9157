"""Errors and values of others, made fit to stand inside a message of ours: on one line, and short."""

from collections.abc import Iterator

_SHOWN = 80  # characters, enough to recognise a value


def innermost(error: BaseException) -> BaseException:
    """The reason that requests wraps around urllib3's wrapping of what the system said."""
    causes = (getattr(error, "reason", None), *error.args)
    inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    return innermost(inner) if inner else error


def last_words(error: BaseException) -> str:
    """What the system itself said, without what each library has put before it."""
    return str(innermost(error)).rpartition(": ")[2]


def one_line(message: str) -> str:
    """The message on one line, without a full stop."""
    return " ".join(message.split()).rstrip(".")


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
