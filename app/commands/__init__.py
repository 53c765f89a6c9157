"""The commands of ``python main.py``; without one it runs the connector.

Any of their functions may raise the ``ConnectorError`` of a store or a catalog that it asks.
"""

import logging
import pkgutil
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from app.commands.output import print_line
from app.errors import ConnectorError, FatalError
from app.storage.errors import os_translated

if TYPE_CHECKING:
    from app.config.settings import Settings

logger = logging.getLogger(__name__)

_INTERRUPTED: Final = 130  # what shells report after Ctrl-C


def run(settings: "Settings", options: Namespace) -> int:
    """Run the command of these options; an error is one line on standard error, whatever LOGLEVEL is.

    One that goes through several tables goes on to the next one after an error.

    Returns:
        The exit code: 0 done, else the highest of the errors, as in ``app.errors``, or 130 after a signal.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """

    def through_tables() -> int:
        from app.commands.tables import tables_beside, tables_of  # noqa: PLC0415 - loading it takes a second, too

        work = pkgutil.resolve_name(options.work)  # loading it takes a second
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        if options.command == "schema":
            options.beside = tables_beside(settings)
        codes = []
        with options.ends:
            for its in tables_of(settings, options):
                is_one = settings.has_tables and not its.has_tables
                if is_one and not vars(options).get("json"):
                    print_line(f"-- table {its.table}")  # a comment in SQL
                where = f"table {its.table}: " if is_one else ""
                codes.append(_run(options.command, partial(work, its, options), where))
        return max(codes)

    try:
        return _run(options.command, through_tables)
    except KeyboardInterrupt:
        return _failed(f"{options.command} was stopped before its end", _INTERRUPTED)


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
