"""What commands print and log."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from app.formatting import escape_control_in_lines
from app.logs import RecentWarnings


def print_line(line: str) -> None:
    """Print a line on standard output at once, also where that is a pipe, and whatever LOGLEVEL is."""
    try:
        print(escape_control_in_lines(line), flush=True)  # noqa: T201
    except BrokenPipeError:  # the reader has enough, as `head` has: the command goes on to its end all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def log_warnings_only() -> None:
    """Log warnings and errors alone, for commands that print what they find; LOGLEVEL=DEBUG still shows all."""
    root = logging.getLogger()
    if root.level > logging.DEBUG:
        root.setLevel(max(root.level, logging.WARNING))


@contextmanager
def warnings_to_tell(*, by_answer: bool) -> Iterator[RecentWarnings]:
    """Takes the warnings out of the log if the answer tells them; LOGLEVEL=DEBUG still logs all."""
    log, taken = logging.getLogger("app"), RecentWarnings()
    if by_answer:
        log.addHandler(taken)
        log.propagate = log.isEnabledFor(logging.DEBUG)
    try:
        yield taken
    finally:
        log.propagate = True
        log.removeHandler(taken)
