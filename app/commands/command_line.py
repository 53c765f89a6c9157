"""The command line. It needs the standard library alone: ``--help`` works before the packages are installed."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path

from app import __version__


def new_parser() -> ArgumentParser:
    """Reads the command and its options; ``command`` is ``None`` for the connector.

    ``work`` names the command's function, ``needs_broker`` and ``needs_store`` what its settings must name.
    """
    parser = ArgumentParser(
        prog="python main.py",
        description="Run the connector, or a command.",
        epilog="COMMAND --help lists the options of a command. Environment variables are the settings, "
        "see docs/settings.md; .env beside main.py is read too.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"quix-ts-datalake-sink {__version__}")
    parser.set_defaults(needs_broker=True, needs_store=True)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")

    def add_command(name: str, work: str, summary: str, **needs: bool) -> ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        command.set_defaults(work=f"app.commands.{work}", **needs)
        return command

    check = add_command(
        "check",
        "check.command:check",
        "Try out broker, topic, store, catalog and Spark, and say what is wrong.",
    )
    check.add_argument("--json", action="store_true", help="answer with an object in JSON for each check")
    check.add_argument("--without", choices=["spark"], help="leave this check out: it starts Java, which takes seconds")

    try_out = add_command(
        "try",
        "try_out.command:try_out",
        "Show what becomes of sample records, one JSON value a line on standard input.",
        needs_broker=False,
        needs_store=False,
    )
    try_out.add_argument("file", nargs="?", type=Path, help="instead of standard input")
    try_out.add_argument(
        "--envelope",
        action="store_true",
        help='lines are objects with "value" and, if wanted, "key", "timestamp" (ms) and "headers" (an object)',
    )

    audit = add_command(
        "audit",
        "audit.command:audit",
        "Show which offsets the table's files hold, which twice, and which are missing.",
        needs_broker=False,
    )
    audit.add_argument(
        "--offsets",
        action="store_true",
        help="read the columns __offset and __partition of each file, not only names and footers",
    )
    audit.add_argument("--json", action="store_true", help="answer in JSON")
    audit.add_argument("--most", metavar="N", type=int, default=20, help="list so many of each kind (%(default)s)")

    replay = add_command(
        "replay",
        "replay.command:replay",
        "Send the records of the table's dead letter to a topic again.",
    )
    replay.add_argument(
        "--to", metavar="TOPIC", help="the topic for all of them (default: the topic and partition that each came from)"
    )
    replay.add_argument("--reason", metavar="TEXT", default="", help="only those whose reason contains this text")
    replay.add_argument("--since", metavar="TIME", type=time, help="only those rejected at or after it (ISO, UTC)")
    replay.add_argument("--until", metavar="TIME", type=time, help="only those rejected before it (ISO, UTC)")
    mode = replay.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="send nothing, count them by reason")
    mode.add_argument("--delete", action="store_true", help="delete each file once all of its records are sent")

    rewrite = add_command(
        "rewrite",
        "rewrite.command:rewrite",
        "Bring old files of the table to the table's schema, each under its own name.",
        needs_broker=False,
    )
    rewrite.add_argument(
        "--folder",
        action="append",
        metavar="COLUMN=VALUE/...",
        help="only files in this folder of the table, such as year=2024/month=05 (can be given several times)",
    )
    rewrite.add_argument("--dry-run", action="store_true", help="write nothing, list the files and what differs")
    return parser


def time(text: str) -> datetime:
    """A date, or a date and time, in ISO format; in UTC where it names no zone. argparse shows this function's name."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
