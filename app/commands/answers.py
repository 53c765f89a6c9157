"""What commands say on standard output, whatever LOGLEVEL is."""

import logging
import os
import sys


def tell(line: str) -> None:
    """Say a line at once, also where the output is a pipe."""
    try:
        print(line, flush=True)  # noqa: T201
    except BrokenPipeError:  # who reads has enough, as `head` has: the command goes on to its end all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def log_warnings_only() -> None:
    """For commands that say on standard output what they find; LOGLEVEL=DEBUG still shows all."""
    root = logging.getLogger()
    if root.level > logging.DEBUG:
        root.setLevel(max(root.level, logging.WARNING))
