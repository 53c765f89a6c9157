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


@contextmanager
def warnings_alone(*, in_answer: bool) -> Iterator[RecentWarnings]:
    """Logs nothing below warnings, for commands that print what they find, nor these if the answer tells them.

    LOGLEVEL=DEBUG still logs all.
    """
    root, log, taken = logging.getLogger(), logging.getLogger("app"), RecentWarnings()
    if root.level > logging.DEBUG:
        root.setLevel(max(root.level, logging.WARNING))
    if in_answer:
        log.addHandler(taken)
        log.propagate = log.isEnabledFor(logging.DEBUG)
    try:
        yield taken
    finally:
        log.propagate = True
        log.removeHandler(taken)
