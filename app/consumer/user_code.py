"""Finds the file and line of the user's own code that a message has to name."""

import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from quixstreams.core.stream import Stream
from quixstreams.core.stream.functions import StreamFunction

ROOT = Path(__file__).resolve().parents[2]

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
# The connector's own packages that call what the user has written, or are called by what the user has built.
_OWN = ("app.consumer.", "app.stream_timeouts.", "app.service.")
_EXECUTORS = str(Path(sys.modules[StreamFunction.__module__].__file__ or "").parent)
# Operations of a stream, by the id of what they call for each record; kept with it, so that no id is given twice.
_operations: dict[int, tuple[Callable[..., Any], str]] = {}


class NotedStream(Stream):
    """A stream that remembers which line of the user's code each operation comes from.

    A function of the library may fail later for a record, such as the comparison in ``sdf[sdf["x"] > 1]``: the stack
    then has no line of the user's code.
    """

    def _add(self, func: StreamFunction) -> Stream:
        if line := _line_that_calls():
            _operations[id(func.func)] = (func.func, line)
        return super()._add(func)


def line_of(error: BaseException) -> str:
    """``file:line`` of the user's code that raised this; empty if no line of it is involved.

    Files of the connector's folder are named from there, others in full.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno or 1}"
    found = ""
    for frame, number in _frames(error):
        if _is_users(frame):
            found = f"{_shown(frame.f_code.co_filename)}:{number}"
    return found or _line_of_operation(error)


def defined_at(function: Callable[..., Any]) -> str:
    """``file:line`` where a function begins; empty for one that is not written in Python."""
    code = getattr(function, "__code__", None)
    return f"{_shown(code.co_filename)}:{code.co_firstlineno}" if code else ""


def at(line: str) -> str:
    """The end of a sentence that names this line."""
    return f" at {line}" if line else ""


def _line_of_operation(error: BaseException) -> str:
    found = ""
    for frame, _ in _frames(error):
        if frame.f_code.co_filename.startswith(_EXECUTORS):
            function, line = _operations.get(id(frame.f_locals.get("func")), (None, ""))
            found = line if function else found
    return found


def _line_that_calls() -> str:
    frame: FrameType | None = sys._getframe(1)
    while frame:
        if _is_users(frame):
            return f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        if frame.f_globals.get("__name__") == "app.service.customised":
            return ""
        frame = frame.f_back
    return ""


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """From where it was caught to where it was raised."""
    trace = error.__traceback__
    while trace:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    module = str(frame.f_globals.get("__name__"))
    return not (file.startswith("<") or file.startswith(_LIBRARIES) or module.startswith(_OWN))


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else file
