"""Adds ``python main.py try``, which shows rows and rejections of sample records, without Kafka, Java or a store."""

from pathlib import Path

from app.parts import NewCommand
from app.parts.commands.command_line import count


def add_commands(new: NewCommand) -> None:
    summary = "Show the rows of sample records, one JSON value per line of standard input."
    try_out = new("try", summary, "app.parts.try_out.command:try_out", needs="", tables="one")
    try_out.add_argument("file", nargs="?", type=Path, help="instead of standard input")
    try_out.add_argument(
        "--envelope",
        action="store_true",
        help='lines are objects with "value" and, optionally, "key", "timestamp" (ms) and "headers" (an object)',
    )
    try_out.add_argument(
        "--topic",
        metavar="N",
        nargs="?",
        type=count,
        const=1_000,
        help="instead, plan the table from the newest N records of the topic (%(const)s), without joining the group",
    )
    try_out.add_argument("--json", action="store_true", help="print JSON, with --topic")
    for name, default, item in (("put", 0.005, "1,000 writing requests"), ("gb", 0.023, "a GB for a month")):
        price = f"price of {item} (%(default)s), with --topic"
        try_out.add_argument(f"--{name}-price", metavar="PRICE", type=float, default=default, help=price)
