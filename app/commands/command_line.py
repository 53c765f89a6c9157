"""The command line. It needs the standard library alone: ``--help`` works before the packages are installed."""

from argparse import ArgumentParser, ArgumentTypeError
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from app import DOCUMENTS, __version__
from app.time_texts import duration, time

_ENGINES = ("athena", "bigquery", "clickhouse", "duckdb", "spark", "trino")


def new_parser() -> ArgumentParser:
    """Reads the command and its options; ``command`` is ``None`` for the connector.

    ``work`` names the command's function, ``needs_broker`` and ``needs_store`` what its settings must name. ``ends``
    ends what the tables of a run share.
    """
    parser = ArgumentParser(
        prog="python main.py",
        description="Run the connector, or a command.",
        epilog="COMMAND --help lists the options of a command. Environment variables are the settings, "
        f"see {DOCUMENTS}/settings.md; .env beside main.py is read too.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"quix-ts-datalake-sink {__version__}")
    parser.set_defaults(needs_broker=True, needs_store=True, ends=ExitStack())
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")

    def add_command(name: str, summary: str, work: str = "", needs: str = "store") -> ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        work = f"app.commands.{work or f'{name}.command:{name}'}"
        command.set_defaults(work=work, needs_broker="broker" in needs, needs_store="store" in needs)
        if name != "config-schema":
            told = "only this one of several tables (can be given several times)"
            command.add_argument("--table", metavar="NAME", action="append", help=told)
        return command

    check = add_command(
        "check", "Try out broker, topic, store, catalog and Spark, and say what is wrong.", needs="broker store"
    )
    check.add_argument("--json", action="store_true", help="answer with an object in JSON for each check")
    check.add_argument(
        "--without",
        nargs="+",
        choices=["broker", "registry", "catalog", "store", "spark"],
        default=[],
        help="leave out what needs these, such as spark, which takes seconds; without all of them no system is asked",
    )

    try_out = add_command(
        "try",
        "Show what becomes of sample records, one JSON value a line on standard input.",
        "try_out.command:try_out",
        needs="",
    )
    try_out.add_argument("file", nargs="?", type=Path, help="instead of standard input")
    try_out.add_argument(
        "--envelope",
        action="store_true",
        help='lines are objects with "value" and, if wanted, "key", "timestamp" (ms) and "headers" (an object)',
    )
    try_out.add_argument(
        "--topic",
        metavar="N",
        nargs="?",
        type=count,
        const=1_000,
        help="instead, plan the table by the newest N records of the topic (%(const)s), without joining the group",
    )
    try_out.add_argument("--json", action="store_true", help="answer in JSON, with --topic")
    for name, default, what in (("put", 0.005, "1,000 writing requests"), ("gb", 0.023, "a GB for a month")):
        try_out.add_argument(
            f"--{name}-price",
            metavar="PRICE",
            type=float,
            default=default,
            help=f"of {what} (%(default)s), with --topic",
        )

    audit = add_command("audit", "Show which offsets the table's files hold, which twice, and which are missing.")
    audit.add_argument(
        "--offsets",
        action="store_true",
        help="read the columns __offset and __partition of each file, not only names and footers",
    )
    audit.add_argument("--json", action="store_true", help="answer in JSON")
    audit.add_argument("--most", metavar="N", type=int, default=20, help="list so many of each kind (%(default)s)")

    replay = add_command(
        "replay", "Send the records of the table's dead letter to a topic again.", "replay:replay", "broker store"
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

    compact = add_command(
        "compact", "Merge small files of the table, and bring old ones to the table's types, folder by folder."
    )
    erase = add_command("erase", "Delete rows from the table's files.", "compact.erase:erase")
    for command in (compact, erase):
        told = "only folders of the table like this, such as 'year=2024/*' (can be given several times)"
        command.add_argument("--folder", action="append", metavar="GLOB", default=[], help=told)
    compact.add_argument(
        "--when-cold",
        metavar="TIME",
        type=age,
        default=timedelta(days=1),
        help="only files that are older, such as 24h, 90m or 7d (24h)",
    )
    compact.add_argument(
        "--target-mb",
        metavar="MB",
        type=int,
        default=256,
        help="the most that files merged into one have (%(default)s)",
    )
    compact.add_argument("--dry-run", action="store_true", help="write nothing, list what would be merged")

    which = erase.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--where",
        action="append",
        metavar="SQL",
        help="rows that meet this condition, such as \"device = 'x'\" (given several times: that meet all of them)",
    )
    which.add_argument(
        "--older-than",
        metavar="TIME",
        type=age,
        help="folders of year, month, day and hour that ended so long ago",
    )
    erase.add_argument("--at-most", metavar="PERCENT", type=count, help="refuse to erase more of the table's bytes")
    erase.add_argument("--dry-run", action="store_true", help="delete nothing, count the rows")
    schema = add_command("schema", "Print the statement with which an engine reads the table.", "schema:schema")
    schema.add_argument("--for", dest="engine", required=True, choices=_ENGINES)

    add_command("config-schema", "Print the settings as JSON Schema.", "config_schema:config_schema", needs="")
    return parser


def age(text: str) -> timedelta:
    try:
        return duration(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no duration, such as 400d, 36h or 90m") from None


def count(text: str) -> int:
    """A number of 1 or more. argparse shows this function's name."""
    if (number := int(text)) < 1:
        raise ValueError
    return number
