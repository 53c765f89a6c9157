"""Runs commands in this process."""

from argparse import Namespace

from app.config.settings import Settings
from app.parts import commands
from app.parts.commands.command_line import new_parser


def options(*arguments: str) -> Namespace:
    return new_parser().parse_args(arguments)


def run_command(settings: Settings, *arguments: str) -> int:
    return commands.run(settings, options(*arguments))
