"""The command line of ``check``."""

from typing import Final

from app.commands.command_line import ArgumentParser

SPARK: Final = "spark"


def new_parser() -> ArgumentParser:
    """Reads ``json`` and ``without``."""
    parser = ArgumentParser("check", "Try out broker, topic, store, catalog and Spark, and say what is wrong.")
    parser.add_argument("--json", action="store_true", help="answer with an object in JSON for each check")
    parser.add_argument("--without", choices=[SPARK], help="leave this check out: it starts Java, which takes seconds")
    return parser
