"""The commands of ``python main.py``; without one it runs the connector.

Any of their functions may raise the ``ConnectorError`` of a store or a catalog that it asks.
"""

import logging
import os
import pkgutil
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

from app.errors import ConfigError, ConnectorError, FatalError
from app.formatting import escape_control_in_lines
from app.logs import RecentWarnings
from app.storage.errors import os_translated

if TYPE_CHECKING:
    from app.config.settings import Settings

logger = logging.getLogger(__name__)


def run(settings: "Settings", options: Namespace) -> int:
    """Run the command of these options; an error is one line on standard error, whatever LOGLEVEL is.

    One that goes through several tables goes on to the next one after an error.

    Returns:
        The exit code: 0 done, else the highest of the errors, as in ``app.errors``, or 130 after a signal.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """

    def through_tables() -> int:
        from app.parts.commands.tables import tables_of_group  # noqa: PLC0415
        from app.service.lake import new_store  # noqa: PLC0415 - loading them takes a second

        work = pkgutil.resolve_name(options.work)  # this, too
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        found = cache(lambda: [*tables_of_group(settings, new_store(settings))])
        options.beside = lambda: [each.table for each in found()] if settings.has_tables else []
        codes = []
        with options.ends:
            for its in _chosen(settings, options, found):
                is_one = settings.has_tables and not its.has_tables
                if is_one and not vars(options).get("json"):
                    print_line(f"-- table {its.table}")  # a comment in SQL
                where = f"table {its.table}: " if is_one else ""
                codes.append(_run(options.command, partial(work, its, options), where))
        return max(codes)

    try:
        return _run(options.command, through_tables)
    except KeyboardInterrupt:
        return _failed(f"{options.command} was stopped before its end", 130)  # as shells report Ctrl-C


def _chosen(settings: "Settings", options: Namespace, found: Callable[[], list["Settings"]]) -> Sequence["Settings"]:
    """Settings of each table that ``--table`` names; without it, of those that this consumer group has had."""
    named = vars(options).get("table")
    if not named and (not settings.has_tables or options.tables in ("itself", "none")):
        return [settings]
    if named or options.tables == "one":
        return [settings.of_table(each) for each in dict.fromkeys(named or [None])]
    if not (tables := found()):
        cause = f"consumer group {settings.consumer_group} has written none of input={settings.input_topic}"
        hint = f"Name one with --table, such as {settings.table}"
        raise ConfigError(f"looking for tables in {settings.storage.uri}/{settings.root}", cause, hint)
    return tables


def _run(command: str, work: Callable[[], int], where: str = "") -> int:
    try:
        with os_translated(f"running {command}"):  # a full temporary folder, above all
            return int(work())
    except ConnectorError as error:
        return _failed(f"{where}{error}", error.exit_code)
    except ModuleNotFoundError:
        raise  # main says how to install it
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        unexpected = FatalError(
            f"running {command}", repr(error), "Please report this as a bug; LOGLEVEL=DEBUG shows where it was"
        )
        return _failed(f"{where}{unexpected}", unexpected.exit_code)


def _failed(message: str, code: int) -> int:
    print(f"ERROR! {message}", file=sys.stderr, flush=True)  # noqa: T201
    return code


def print_line(line: str) -> None:
    """Print a line on standard output at once, also where that is a pipe, and whatever LOGLEVEL is."""
    try:
        print(escape_control_in_lines(line), flush=True)  # noqa: T201
    except BrokenPipeError:  # the reader has enough, as `head` has: the command goes on to its end all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def warnings_alone(*, in_answer: bool) -> Iterator[RecentWarnings]:
    """Logs nothing below warnings, for commands that print what they find, nor these if the answer tells them.

    LOGLEVEL=DEBUG still logs all.
    """
    root, log, taken = logging.getLogger(), logging.getLogger("app"), RecentWarnings()
    if root.level > logging.DEBUG:
        root.setLevel(max(root.level, logging.WARNING))
    if in_answer:
        log.addHandler(taken)
        log.propagate = log.isEnabledFor(logging.DEBUG)
    try:
        yield taken
    finally:
        log.propagate = True
        log.removeHandler(taken)
