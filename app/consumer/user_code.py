"""Names the line of the user's own code that raised an error."""

import sysconfig
from pathlib import Path
from traceback import walk_tb
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
# The connector's own packages that call the user's code, or that the framework calls.
_OWN = ("app.consumer.", "app.stream_timeouts.", "app.service.")


def at_line_of(error: BaseException) -> str:
    """Ends a sentence with ``at file:line`` of the user's code that raised this; empty if the traceback has none.

    Files of the connector's folder are named from there, others in full.
    """
    lines = [
        f"{_shown(frame.f_code.co_filename)}:{line}" for frame, line in walk_tb(error.__traceback__) if _is_users(frame)
    ]
    return f" at {lines[-1]}" if lines else ""


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    module = str(frame.f_globals.get("__name__"))
    return not (file.startswith("<") or file.startswith(_LIBRARIES) or module.startswith(_OWN))


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else file
