"""``python main.py audit``: shows which offsets are in the table, which are there twice, which are missing."""

from app.parts import NewCommand


def add_commands(new: NewCommand) -> None:
    audit = new("audit", "Show which offsets the table's files hold, which twice, and which are missing.")
    audit.add_argument(
        "--offsets",
        action="store_true",
        help="read the columns __offset and __partition of each file, not only names and footers",
    )
    audit.add_argument("--json", action="store_true", help="answer in JSON")
    audit.add_argument("--most", metavar="N", type=int, default=20, help="list so many of each kind (%(default)s)")
