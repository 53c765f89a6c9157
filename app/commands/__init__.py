"""The commands of ``python main.py``; without one it runs the connector.

Any of their functions may raise the ``ConnectorError`` of a store or a catalog that it asks.
"""

import logging
import pkgutil
import signal
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Final

from app.errors import ConnectorError, FatalError
from app.storage.errors import os_translated

if TYPE_CHECKING:
    from app.config.settings import Settings

logger = logging.getLogger(__name__)

_INTERRUPTED: Final = 130  # what shells report after Ctrl-C


def run(settings: "Settings", options: Namespace) -> int:
    """Run the command of these options; an error is one line on standard error, whatever LOGLEVEL is.

    Returns:
        The exit code: 0 done, else that of the error as in ``app.errors``, or 130 after a signal.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """
    try:
        work = pkgutil.resolve_name(options.work)  # loading it takes a second
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        if "table" in options:
            settings = settings.of_table(options.table)
        with os_translated(f"running {options.command}"):  # a full temporary folder, above all
            return int(work(settings, options))
    except KeyboardInterrupt:
        return _failed(f"{options.command} was stopped before its end", _INTERRUPTED)
    except ConnectorError as error:
        return _failed(str(error), error.exit_code)
    except ModuleNotFoundError:
        raise  # main says how to install it
    except Exception as error:
        logger.debug("unexpected", exc_info=True)
        unexpected = FatalError(
            f"running {options.command}", repr(error), "Please report this as a bug; LOGLEVEL=DEBUG shows where it was"
        )
        return _failed(str(unexpected), unexpected.exit_code)


def _failed(message: str, code: int) -> int:
    print(f"ERROR! {message}", file=sys.stderr, flush=True)  # noqa: T201
    return code
