"""Adds ``python main.py complete``, which shows whether the tables contain all records before a time."""

from datetime import timedelta

from app.parts import NewCommand
from app.parts.commands.command_line import age
from app.time_texts import time


def add_commands(new: NewCommand) -> None:
    summary = "Show whether all records with an earlier Kafka timestamp are in the table."
    complete = new("complete", summary, needs="broker store", tables="itself")
    complete.add_argument("--to", metavar="TIME", type=time, required=True, help="a time in the past (ISO, UTC)")
    wait_help = "wait this long for missing records, such as 2h or 90m"
    complete.add_argument("--wait", metavar="TIME", type=age, default=timedelta(), help=wait_help)
    complete.set_defaults(failed=2)  # code 1 only means that records are missing
    complete.add_argument("--json", action="store_true", help="print JSON")
