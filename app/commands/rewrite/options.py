"""The command line of ``rewrite``."""

from app.commands.command_line import ArgumentParser


def new_parser() -> ArgumentParser:
    """Reads ``folder`` and ``dry_run``."""
    parser = ArgumentParser("rewrite", "Bring old files of the table to the table's schema, each under its own name.")
    parser.add_argument(
        "--folder",
        action="append",
        metavar="COLUMN=VALUE/...",
        help="only files in this folder of the table, such as year=2024/month=05 (can be given several times)",
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing, list the files and what differs")
    return parser
