"""``python main.py check``: tries out everything that the connector needs, and says what to do where it fails."""

from app.parts import NewCommand


def add_commands(new: NewCommand) -> None:
    summary = "Try out broker, topic, store, catalog and Spark, and say what is wrong."
    check = new("check", summary, needs="broker store", tables="itself")
    check.add_argument("--json", action="store_true", help="answer with an object in JSON for each check")
    check.add_argument(
        "--without",
        nargs="+",
        choices=["broker", "registry", "catalog", "store", "spark"],
        default=[],
        help="leave out what needs these, such as spark, which takes seconds; without all of them no system is asked",
    )
