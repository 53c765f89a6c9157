"""Formats numbers and texts for people."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

_BYTES = ("bytes", "KB", "MB", "GB", "TB")
_THOUSANDS = ("", "k", "M", "G", "T")
_LONG, _WIDE = 1_000, 100  # larger numbers have the next unit, or no decimals
# Units of durations in seconds, each with its smaller unit.
_DURATIONS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
# Control characters, marks of text direction, ends of lines and paragraphs, and surrogates, which UTF-8 cannot encode.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def size(count: int) -> str:
    """Formats bytes as ``950 bytes``, ``1.2 MB``, in powers of 1,024, like the settings of memory."""
    value, unit = _scaled(count, _BYTES, 1_024)  # "1,003 KB" would be longer than "1.0 MB"
    digits = 0 if unit == _BYTES[0] or value >= _WIDE else 1
    return f"{value:,.{digits}f} {unit}"


def duration(seconds: float) -> str:
    """Formats seconds as ``4 s``, ``12 min 5 s``, ``3 h 12 min``, ``5 d 2 h``."""
    whole = max(0, round(seconds))
    for unit, name, smaller, smaller_name in _DURATIONS:
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{whole} s"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Formats a number of things: ``1 file``, ``2,000 files``. By default the plural ends in ``s``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def rate(a_second: float) -> str:
    """Formats a rate as ``0``, ``0.5``, ``12.3``, ``8,250``; without decimals from 100."""
    digits = 0 if a_second == 0 or a_second >= _WIDE else 1
    return f"{a_second:,.{digits}f}"


def short(value: float) -> str:
    """Formats a number for the axis of a chart: ``0.2``, ``950``, ``1.5k``, ``200k``."""
    scaled, unit = _scaled(value, _THOUSANDS, 1_000)
    return f"{scaled:.4g}{unit}"


def _scaled(value: float, units: Sequence[str], base: int) -> tuple[float, str]:
    for unit in units[:-1]:
        if abs(value) < _LONG:
            return value, unit
        value /= base
    return value, units[-1]


def ranges(numbers: Iterable[int]) -> str:
    """Formats distinct whole numbers in ascending order: ``0-23, 30``."""
    groups = groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0])  # equal within a run
    runs = [[number for _, number in group] for _, group in groups]
    return ", ".join(f"{run[0]}-{run[-1]}" if run[1:] else str(run[0]) for run in runs)


def sentence(text: str) -> str:
    """Changes the first letter to upper case, unless the first word is a name such as ``data.parquet``."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text


def escape_control(text: str) -> str:
    r"""Replaces invisible characters that change the text around them with ``\uXXXX``.

    These are control characters (C0, DEL, C1), marks of text direction, ends of lines and paragraphs, and surrogates.
    """
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_control_in_lines(text: str) -> str:
    return "\n".join(map(escape_control, text.split("\n")))
