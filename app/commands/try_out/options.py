"""The command line of ``try``."""

from pathlib import Path

from app.commands.command_line import ArgumentParser


def new_parser() -> ArgumentParser:
    """Reads ``file`` and ``envelope``."""
    parser = ArgumentParser("try", "Show what becomes of sample records, one JSON value a line on standard input.")
    parser.add_argument("file", nargs="?", type=Path, help="instead of standard input")
    parser.add_argument(
        "--envelope",
        action="store_true",
        help='lines are objects with "value" and, if wanted, "key", "timestamp" (ms) and "headers" (an object)',
    )
    return parser
