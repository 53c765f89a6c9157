"""Runs commands in this process."""

from argparse import Namespace

from app import commands
from app.commands.command_line import new_parser
from app.config.settings import Settings


def options(*arguments: str) -> Namespace:
    return new_parser().parse_args(arguments)


def run_command(settings: Settings, *arguments: str) -> int:
    return commands.run(settings, options(*arguments))
