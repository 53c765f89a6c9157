"""Reading the arguments of a command."""

import argparse
from datetime import UTC, datetime
from typing import NoReturn

from app.errors import ConfigError


class ArgumentParser(argparse.ArgumentParser):
    """A parser of ``python main.py <name>`` whose complaints are errors like all others."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(prog=f"python main.py {name}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print and exit with."""
        raise ConfigError("reading the arguments", message, f"See {self.prog} --help")


def moment(text: str) -> datetime:
    """A date, or a date and time, in ISO format; in UTC where it names no zone."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is no date or time such as 2025-03-04 or 2025-03-04T05:06:07Z"
        raise argparse.ArgumentTypeError(message) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
