"""Adds ``python main.py check``, which tests each system that the connector needs, and prints hints for failures."""

from app.parts import NewCommand


def add_commands(new: NewCommand) -> None:
    summary = "Test the broker, topic, store, catalog and Spark, and say what is wrong."
    check = new("check", summary, needs="broker store", tables="itself")
    check.add_argument("--json", action="store_true", help="print a JSON object for each check")
    check.add_argument(
        "--without",
        nargs="+",
        choices=["broker", "registry", "catalog", "store", "spark"],
        default=[],
        help="skip the checks that need these systems, such as spark, which takes seconds",
    )
