"""Reasons why a record or a value is not stored. Reasons in dead letters contain values, reasons in logs do not."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Self

_LONGEST: Final = 80  # characters, enough to recognise a value


class Reason(str):
    """A reason with types and classes only, which may be logged. ``whole`` is the same reason with the values."""

    whole: str

    def __new__(cls, text: str, whole: str | None = None) -> Self:
        reason = super().__new__(cls, text)
        reason.whole = text if whole is None else whole
        return reason

    def also(self, text: str, whole: str | None = None) -> Self:
        """Returns a new reason with ``text`` at its end. ``whole`` is appended to the reason with values."""
        return type(self)(self + text, self.whole + (text if whole is None else whole))


class OtherFormat(Reason):
    """The reason if the bytes look like a format that differs from the configured format."""


def reason_of(error: BaseException) -> Reason:
    """Returns the reason in the error. If the error contains no reason, returns the class of the error or its cause."""
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
    """Returns a reason: ``before``, the value's type, ``after``. The dead letter quotes the value itself."""
    return Reason(before).also(f"a value of type {type(value).__name__}", show(value)).also(after)


def _pieces(value: object, longest: int, depth: int) -> Iterator[str]:
    """Yields the value's ``repr()`` in parts. Long texts are cut before they are formatted."""
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
        try:
            yield repr(value)
        except Exception:  # noqa: BLE001 - Python writes no number of more than 4,300 digits; a class may raise anything
            yield f"a number of {value.bit_length():,} bits" if isinstance(value, int) else f"a {type(value).__name__}"
