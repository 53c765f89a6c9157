"""What commands print and log."""

import logging
import os
import sys

from app.formatting import escape_control_in_lines


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
