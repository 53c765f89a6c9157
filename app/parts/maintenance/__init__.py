"""Merges small files and erases rows. Users run ``compact`` and ``erase``, or set COMPACT and KEEP."""

from datetime import timedelta

from app.parts import NewCommand
from app.parts.commands.command_line import age, count


def add_commands(new: NewCommand) -> None:
    summary = "Merge small files of the table, and convert old files to the table's types, folder by folder."
    compact = new("compact", summary, "app.parts.maintenance.compact:compact")
    erase = new("erase", "Delete rows from the table's files.", "app.parts.maintenance.erase:erase")
    for command in (compact, erase):
        folder_help = "only folders of the table that match, such as 'year=2024/*' (can be repeated)"
        command.add_argument("--folder", action="append", metavar="GLOB", default=[], help=folder_help)
    cold_help = "only files that are older, such as 24h, 90m or 7d (24h)"
    compact.add_argument("--when-cold", metavar="TIME", type=age, default=timedelta(days=1), help=cold_help)
    target_help = "maximum size of a merged file (%(default)s)"
    compact.add_argument("--target-mb", metavar="MB", type=int, default=256, help=target_help)
    newest_help = "keep only the newest row of each key in a folder; columns separated by commas, such as device"
    compact.add_argument("--newest-by", metavar="COLUMNS", help=newest_help)
    drop_help = "with --newest-by, remove keys whose newest row meets this condition, such as \"op = 'd'\""
    compact.add_argument("--drop-where", metavar="SQL", help=drop_help)
    compact.add_argument("--dry-run", action="store_true", help="write nothing, list the files to be merged")

    which = erase.add_mutually_exclusive_group(required=True)
    where_help = "rows that meet this condition, such as \"device = 'x'\" (if repeated, rows that meet all conditions)"
    which.add_argument("--where", action="append", metavar="SQL", help=where_help)
    older_help = "folders of year, month, day and hour that ended this long ago"
    which.add_argument("--older-than", metavar="TIME", type=age, help=older_help)
    erase.add_argument("--at-most", metavar="PERCENT", type=count, help="refuse to erase more of the table's bytes")
    erase.add_argument("--dry-run", action="store_true", help="delete nothing, count the rows")
