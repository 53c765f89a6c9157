"""Reasons why a record or one of its values is not stored: without values for logs, with them for the dead letter."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Self

_LONGEST: Final = 80  # characters, enough to recognise a value


class Reason(str):
    """A reason that may be logged and shown: it names types and classes. ``whole`` quotes the values instead."""

    whole: str

    def __new__(cls, text: str, whole: str | None = None) -> Self:
        reason = super().__new__(cls, text)
        reason.whole = text if whole is None else whole
        return reason

    def also(self, text: str, whole: str | None = None) -> Self:
        """Returns the reason with these texts at its end."""
        return type(self)(self + text, self.whole + (text if whole is None else whole))


class OtherFormat(Reason):
    """The bytes look like a different format than the configured one."""


def reason_of(error: BaseException) -> Reason:
    """Returns the reason in the error. For an error without one, the reason is its class or the class of its cause."""
    reason = error.args[0] if error.args else None
    return reason if isinstance(reason, Reason) else Reason(type(error.__cause__ or error).__name__, str(error))


def shown(value: object, longest: int = _LONGEST) -> str:
    """Returns the first ``longest`` characters of ``repr(value)``, without formatting the rest of a large value."""
    text = ""
    for piece in _pieces(value, longest, 0):
        text += piece
        if len(text) > longest:
            return text[: longest - 3] + "..."
    return text


def about(value: object, after: str, before: str = "", show: Callable[[Any], str] = shown) -> Reason:
    """Returns a reason that contains the value's type, and in ``whole`` the value, between two texts."""
    return Reason(before).also(f"a value of type {type(value).__name__}", show(value)).also(after)


def _pieces(value: object, longest: int, depth: int) -> Iterator[str]:
    """Yields the ``repr()`` in parts. Long texts are cut before they are formatted."""
    if depth > longest:
        yield "..."
    elif type(value) is dict:
        yield "{"
        for number, (name, item) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _pieces(name, longest, depth + 1)
            yield ": "
            yield from _pieces(item, longest, depth + 1)
        yield "}"
    elif type(value) is list:
        yield "["
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(item, longest, depth + 1)
        yield "]"
    elif isinstance(value, str | bytes | bytearray):
        yield repr(value[: longest + 1])
    else:
        yield _safe_repr(value)


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "a value of many levels"
    except Exception:  # noqa: BLE001 - Python writes no number of more than 4,300 digits; a user's class may raise anything
        return f"a number of {value.bit_length():,} bits" if isinstance(value, int) else f"a {type(value).__name__}"
