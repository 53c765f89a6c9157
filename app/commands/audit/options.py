"""The command line of ``audit``."""

import argparse
from typing import Final

from app.commands.command_line import ArgumentParser

_MOST: Final = 20


def new_parser() -> ArgumentParser:
    """Reads ``offsets``, ``json`` and ``most``."""
    parser = ArgumentParser("audit", "Show which offsets the table's files hold, which twice, and which are missing.")
    parser.add_argument(
        "--offsets",
        action="store_true",
        help="read the columns __offset and __partition of each file, not only names and footers",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--most", metavar="N", type=_count, default=_MOST, help="list so many of each kind (%(default)s)"
    )
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)
