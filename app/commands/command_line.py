"""The command line of a command: reads its arguments, prints its answer.

It needs the standard library alone, so that ``--help`` works before the packages are installed.
"""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Iterable
from typing import NoReturn

from app.errors import ConfigError
from app.formatting import escape_control_in_lines

PROGRAM = "python main.py"

_NEAR = 0.7  # --json is not near to --version
_UNKNOWN = "unrecognized arguments: "


class ArgumentParser(argparse.ArgumentParser):
    """A parser for ``python main.py <name>`` that raises errors as the rest of the connector does.

    Args:
        name: of the command; empty for the connector itself.
        description: one sentence.
        epilog: printed as it is, behind the options.
    """

    def __init__(self, name: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"{PROGRAM} {name}".rstrip(),
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print and exit with."""
        hint = f"See {self.prog} --help"
        if message.startswith(_UNKNOWN):
            options = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
            first = message.removeprefix(_UNKNOWN).split()[0].partition("=")[0]
            hint = f"{did_you_mean(first, options)}The options are: {', '.join(options)}"
        raise ConfigError("reading the arguments", message, hint)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``Did you mean check? ``, or nothing where no known word is near."""
    near = difflib.get_close_matches(word.casefold(), known, n=1, cutoff=_NEAR)
    return f"Did you mean {near[0]}? " if near else ""


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
