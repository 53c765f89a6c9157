"""Adds ``python main.py audit``, which shows the offsets that are in the table, are duplicate, or are missing."""

from app.parts import NewCommand


def add_commands(new: NewCommand) -> None:
    audit = new("audit", "Show which offsets the table's files contain, contain twice, or lack.")
    offsets = "read the columns __offset and __partition of each file, not only names and footers"
    audit.add_argument("--offsets", action="store_true", help=offsets)
    audit.add_argument("--json", action="store_true", help="print JSON")
    audit.add_argument("--most", metavar="N", type=int, default=20, help="list N entries of each kind (%(default)s)")
