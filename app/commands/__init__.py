"""The commands of ``python main.py``; without one it runs the connector.

Until a command runs, this needs the standard library alone: ``--help`` and a mistake in the arguments are answered
without settings, without PySpark, and before the packages are installed.
"""

import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app import __version__
from app.commands.audit.options import new_parser as new_audit_parser
from app.commands.check.options import new_parser as new_check_parser
from app.commands.command_line import PROGRAM, ArgumentParser, did_you_mean
from app.commands.replay.options import new_parser as new_replay_parser
from app.commands.rewrite.options import new_parser as new_rewrite_parser
from app.commands.try_out.options import new_parser as new_try_parser
from app.errors import ConfigError, ConnectorError, FatalError

if TYPE_CHECKING:
    from app.config.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the parser of its arguments, and what its settings must name."""

    new_parser: Callable[[], ArgumentParser]
    needs_broker: bool = True
    needs_store: bool = True


COMMANDS: Final[Mapping[str, Command]] = {
    "audit": Command(new_audit_parser, needs_broker=False),
    "check": Command(new_check_parser),
    "replay": Command(new_replay_parser),
    "rewrite": Command(new_rewrite_parser, needs_broker=False),
    "try": Command(new_try_parser, needs_broker=False, needs_store=False),
}
INTERRUPTED: Final = 130  # what shells report after Ctrl-C

_OWN_OPTIONS = ("--help", "--version")


def read(arguments: Sequence[str]) -> str | None:
    """Check the arguments and return the command; ``None`` runs the connector.

    Raises:
        ConfigError: there is no such command or option.
        SystemExit: ``--help`` or ``--version`` was answered.
    """
    if not arguments:
        return None
    name, *others = arguments
    if name in ("-h", "--help") and others and others[0] in COMMANDS:
        name, others = others[0], ["--help"]
    if name in COMMANDS:
        COMMANDS[name].new_parser().parse_args(others)
        return name
    if name in ("-h", *_OWN_OPTIONS):
        _own_parser().parse_args([name])
    known = ", ".join(COMMANDS)
    near = did_you_mean(name, [*COMMANDS, *_OWN_OPTIONS])
    hint = f"{near}The commands are: {known}, each before its options. Without a command the connector runs"
    raise ConfigError("reading the arguments", f"there is no command {name!r}", hint)


def _own_parser() -> ArgumentParser:
    """The parser of what stands in a command's place."""
    width = max(map(len, COMMANDS))
    summaries = [f"  {name:<{width}}  {command.new_parser().description}" for name, command in COMMANDS.items()]
    epilog = "\n".join(
        [
            "commands:",
            *summaries,
            "",
            f"{PROGRAM} COMMAND --help lists the options of a command.",
            "Environment variables are the settings, see docs/settings.md; .env beside main.py is read too.",
        ]
    )
    parser = ArgumentParser("", "Run the connector, or a command.", epilog)
    parser.usage = f"{PROGRAM} [COMMAND] [options of the command]"
    parser.add_argument("--version", action="version", version=f"quix-ts-datalake-sink {__version__}")
    return parser


def run(name: str, settings: "Settings", arguments: Sequence[str]) -> int:
    """Run a command; an error is one line on standard error.

    Returns:
        The exit code: 0 done, else that of the error as in ``app.errors``, or 130 after a signal.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """
    try:
        work = _work_of(name)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        return work(settings, arguments)
    except KeyboardInterrupt:
        return failed(f"{name} was stopped before its end", INTERRUPTED)
    except ConnectorError as error:
        return failed(str(error), error.exit_code)
    except ModuleNotFoundError:
        raise  # main says how to install it
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        unexpected = FatalError(
            f"running {name}", repr(error), "Please report this as a bug; LOGLEVEL=DEBUG shows where it was"
        )
        return failed(str(unexpected), unexpected.exit_code)


def failed(message: str, code: int) -> int:
    """Print the error, whatever LOGLEVEL is, and return the exit code."""
    print(f"ERROR! {message}", file=sys.stderr, flush=True)  # noqa: T201
    return code


def _work_of(name: str) -> Callable[["Settings", Sequence[str]], int]:
    """The command itself; loading it takes a second."""
    match name:
        case "audit":
            from app.commands.audit.command import audit

            return audit
        case "check":
            from app.commands.check.command import check

            return check
        case "replay":
            from app.commands.replay.command import replay

            return replay
        case "rewrite":
            from app.commands.rewrite.command import rewrite

            return rewrite
        case _:
            from app.commands.try_out.command import try_out

            return try_out
