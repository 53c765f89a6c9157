"""Runs the commands of ``python main.py``. Without a command, ``main.py`` runs the connector.

A command's function may raise a ``ConnectorError`` of a store or a catalog.
"""

import logging
import os
import pkgutil
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
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
    """Run the command in ``options``. Each error is printed as one line on standard error, at any LOGLEVEL.

    If a command processes several tables, the command continues with the next table after an error.

    Returns:
        The exit code: 0 without errors, otherwise the highest code of the errors (see ``app.errors``); 130 for signals.

    Raises:
        ModuleNotFoundError: A package is not installed.
    """

    def through_tables() -> int:
        from app.parts.commands.find_tables import tables_of_group  # noqa: PLC0415
        from app.service.lake import new_store  # noqa: PLC0415 - loading them takes a second

        work = pkgutil.resolve_name(options.work)  # also loads slowly
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        find_all = cache(lambda: [*tables_of_group(settings, new_store(settings))])
        options.beside = lambda: [each.table for each in find_all()] if settings.has_tables else []
        codes = []
        with options.ends:
            for table_settings in _chosen(settings, options, find_all):
                is_one = settings.has_tables and not table_settings.has_tables
                if is_one and not vars(options).get("json"):
                    print_line(f"-- table {table_settings.table}")  # printed as an SQL comment
                where = f"table {table_settings.table}: " if is_one else ""
                codes.append(_run(options, partial(work, table_settings, options), where))
        return max(codes)

    try:
        return _run(options, through_tables)
    except KeyboardInterrupt:
        return _print_error(f"{options.command} was interrupted by a signal", 130)  # a shell's code for Ctrl-C


def _chosen(settings: "Settings", options: Namespace, find_all: Callable[[], list["Settings"]]) -> "list[Settings]":
    """Return settings for each table in ``--table``. Without this option, for all tables of the consumer group."""
    named = vars(options).get("table")
    if not named and (not settings.has_tables or options.tables in ("itself", "none")):
        return [settings]
    if named or options.tables == "one":
        return [settings.of_table(each) for each in dict.fromkeys(named or [None])]
    if not (tables := find_all()):
        cause = f"consumer group {settings.consumer_group} has written no table of input={settings.input_topic}"
        hint = f"Set --table, for example to {settings.table}"
        raise ConfigError(f"looking for tables in {settings.storage.uri}/{settings.root}", cause, hint)
    return tables


def _run(options: Namespace, work: Callable[[], int], where: str = "") -> int:
    try:
        with os_translated(f"running {options.command}"):  # for example, the disk is full
            return int(work())
    except ConnectorError as error:
        return _print_error(f"{where}{error}", options.failed if error.exit_code == 1 else error.exit_code)
    except ModuleNotFoundError:
        raise  # main prints how to install the package
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        hint = "Please report this as a bug; LOGLEVEL=DEBUG shows where it happened"
        unexpected = FatalError(f"running {options.command}", repr(error), hint)
        return _print_error(f"{where}{unexpected}", options.failed)


def _print_error(message: str, code: int) -> int:
    print(f"ERROR! {message}", file=sys.stderr, flush=True)  # noqa: T201
    return code


def print_line(line: str) -> None:
    """Print a line on standard output at any LOGLEVEL. The line is not buffered, even if the output is a pipe."""
    try:
        print(escape_control_in_lines(line), flush=True)  # noqa: T201
    except BrokenPipeError:  # the reader, such as `head`, has ended: continue without output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def warnings_alone(*, in_answer: bool) -> Iterator[RecentWarnings]:
    """Log only warnings, because commands print their results. If ``in_answer`` is true, do not log warnings either.

    With LOGLEVEL=DEBUG, all lines are logged.
    """
    root, log, warnings = logging.getLogger(), logging.getLogger("app"), RecentWarnings()
    if root.level > logging.DEBUG:
        root.setLevel(max(root.level, logging.WARNING))
    if in_answer:
        log.addHandler(warnings)
        log.propagate = log.isEnabledFor(logging.DEBUG)
    try:
        yield warnings
    finally:
        log.propagate = True
        log.removeHandler(warnings)
