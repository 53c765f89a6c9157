"""The command line of ``replay``."""

import argparse
from datetime import UTC, datetime

from app.commands.command_line import ArgumentParser


def new_parser() -> ArgumentParser:
    """Reads ``to``, ``reason``, ``since``, ``until``, ``dry_run`` and ``delete``."""
    parser = ArgumentParser("replay", "Send the records of the table's dead letter to a topic again.")
    parser.add_argument(
        "--to", metavar="TOPIC", help="the topic for all of them (default: the topic and partition that each came from)"
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="only those whose reason contains this text")
    parser.add_argument("--since", metavar="TIME", type=_moment, help="only those rejected at or after it (ISO, UTC)")
    parser.add_argument("--until", metavar="TIME", type=_moment, help="only those rejected before it (ISO, UTC)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="send nothing, count them by reason")
    what.add_argument("--delete", action="store_true", help="delete each file once all of its records are sent")
    return parser


def _moment(text: str) -> datetime:
    """A date, or a date and time, in ISO format; in UTC where it names no zone."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is no date or time such as 2025-03-04 or 2025-03-04T05:06:07Z"
        raise argparse.ArgumentTypeError(message) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
