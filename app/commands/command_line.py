"""The command line of a command: reads its arguments, prints its answer."""

import argparse
import logging
import os
import sys
from typing import NoReturn

from app.errors import ConfigError


class ArgumentParser(argparse.ArgumentParser):
    """A parser for ``python main.py <name>`` that raises errors as the rest of the connector does."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(prog=f"python main.py {name}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print and exit with."""
        raise ConfigError("reading the arguments", message, f"See {self.prog} --help")


def print_line(line: str) -> None:
    """Print a line on standard output at once, also where that is a pipe, and whatever LOGLEVEL is."""
    try:
        print(line, flush=True)  # noqa: T201
    except BrokenPipeError:  # the reader has enough, as `head` has: the command goes on to its end all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def log_warnings_only() -> None:
    """Log warnings and errors alone, for commands that print what they find; LOGLEVEL=DEBUG still shows all."""
    root = logging.getLogger()
    if root.level > logging.DEBUG:
        root.setLevel(max(root.level, logging.WARNING))
