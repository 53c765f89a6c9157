"""Parses the command line. Only the standard library is imported, so ``--help`` works before packages are installed."""

from argparse import ArgumentParser, ArgumentTypeError
from contextlib import ExitStack
from datetime import timedelta
from pkgutil import resolve_name

from app import DOCUMENTS, __version__
from app.parts import COMMANDS
from app.time_texts import duration


def new_parser() -> ArgumentParser:
    """Return the parser of commands and options. ``command`` is ``None`` for the connector.

    ``work`` is the command's function. ``needs_broker`` and ``needs_store`` are true if these settings are required.
    ``tables`` is ``each``, ``one``, ``itself`` (the command finds tables) or ``none``. ``failed`` is the exit code of
    permanent failures. ``ends`` closes shared objects.
    """
    parser = ArgumentParser(
        prog="python main.py",
        description="Run the connector, or a command.",
        epilog="COMMAND --help lists the options of a command. Environment variables are the settings, "
        f"see {DOCUMENTS}/settings.md; .env next to main.py is read too.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"quix-ts-datalake-sink {__version__}")
    parser.set_defaults(needs_broker=True, needs_store=True, failed=1, ends=ExitStack())
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")

    def new(name: str, summary: str, work: str = "", needs: str = "store", tables: str = "each") -> ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        work = work or f"app.parts.{name}.command:{name}"
        command.set_defaults(work=work, needs_broker="broker" in needs, needs_store="store" in needs, tables=tables)
        if tables != "none":
            help_text = "only this table, if there are several (can be repeated)"
            command.add_argument("--table", metavar="NAME", action="append", help=help_text)
        return command

    for part in COMMANDS:
        resolve_name(f"app.parts.{part}:add_commands")(new)
    return parser


def age(text: str) -> timedelta:
    try:
        return duration(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a duration, such as 400d, 36h or 90m") from None


def count(text: str) -> int:
    """Parse an integer of at least 1. Error messages of argparse contain the name of this function."""
    if (number := int(text)) < 1:
        raise ValueError
    return number
