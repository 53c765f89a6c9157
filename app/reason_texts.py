"""Why a record, or a value of it, is not stored: once for everyone, and once with the values, for the dead letter."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Self

_LONGEST: Final = 80  # characters, enough to recognise a value


class Reason(str):
    """A reason that may be logged and shown: it names types and classes. ``whole`` quotes values in their place."""

    whole: str

    def __new__(cls, told: str, whole: str | None = None) -> Self:
        reason = super().__new__(cls, told)
        reason.whole = told if whole is None else whole
        return reason

    def also(self, told: str, whole: str | None = None) -> Self:
        """Returns the reason with more behind it."""
        return type(self)(self + told, self.whole + (told if whole is None else whole))


class OtherFormat(Reason):
    """The bytes look like another format than the one that is set."""


def reason_of(error: BaseException) -> Reason:
    """Returns the reason that the error was made with; of another error only its class is told, or its cause's."""
    found = error.args[0] if error.args else None
    return found if isinstance(found, Reason) else Reason(type(error.__cause__ or error).__name__, str(error))


def shown(value: object, longest: int = _LONGEST) -> str:
    """Returns the first ``longest`` characters of ``repr(value)``; never formats much more than these."""
    text = ""
    for piece in _pieces(value, longest, 0):
        text += piece
        if len(text) > longest:
            return text[: longest - 3] + "..."
    return text


def about(value: object, after: str, before: str = "", show: Callable[[Any], str] = shown) -> Reason:
    """Returns a reason with the value, or its type, between two texts."""
    return Reason(before).also(f"a value of type {type(value).__name__}", show(value)).also(after)


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
    except Exception:  # noqa: BLE001 - Python writes no number of more than 4,300 digits; a user's class may raise anything
        return f"a number of {value.bit_length():,} bits" if isinstance(value, int) else f"a {type(value).__name__}"
