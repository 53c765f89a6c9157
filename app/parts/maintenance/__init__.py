"""Small files are merged and old rows erased: by ``compact`` and ``erase``, and by COMPACT and KEEP during a run."""

from datetime import timedelta

from app.parts import NewCommand
from app.parts.commands.command_line import age, count


def add_commands(new: NewCommand) -> None:
    summary = "Merge small files of the table, and bring old ones to the table's types, folder by folder."
    compact = new("compact", summary, "app.parts.maintenance.compact:compact")
    erase = new("erase", "Delete rows from the table's files.", "app.parts.maintenance.erase:erase")
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
